"""Checks that a definition gives the same rows from streams as from batch DataFrames."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from tailrace.testing.rows import as_dicts
from tailrace.testing.streams import StreamTest
from tailrace.testing.values import batch_frame, struct

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tailrace.testing.values import Given

_SHOWN = 5
# Later than any window of a test.
END = dt.timedelta(days=10 * 365)


def assert_stream_equals_batch(
    spark: SparkSession,
    directory: str | os.PathLike[str],
    definition: Callable[..., DataFrame],
    *data: tuple[str | StructType, Sequence[Given]],
    runs: int = 3,
    seed: int = 0,
) -> None:
    """Runs a definition over batch DataFrames, and over streams of the same rows in random micro-batches.

        assert_stream_equals_batch(
            tailrace_spark, tmp_path, my_examples,
            ("user int, served_at timestamp", [(7, "12:00"), (8, "12:01")]),
            ("user int, clicked_at timestamp", [(7, "12:01")]),
        )

    The rows of a stream arrive in the given order, so a watermark's delay has to allow for their disorder. At
    the end event time advances by ten years. Micro-batches, restarts between them and the
    order of the streams are random.

    Args:
        spark: a running session with Tailrace.
        directory: of the checkpoints; `tmp_path` of pytest.
        definition: takes a DataFrame for each of `data`, and returns one in append mode.
        data: schema and rows of each input, as `StreamTest.source` and `Source.add` take them.
        runs: how many random streams.
        seed: of the first one.

    Raises:
        AssertionError: rows are missing or too many; the text has some of them, and the seed.
    """
    expected = as_dicts(definition(*(batch_frame(spark, struct(schema), rows) for schema, rows in data)))
    for n in range(seed, seed + runs):
        found = _streamed(spark, Path(directory) / f"seed-{n}", definition, data, random.Random(n))  # noqa: S311
        check_same(expected, found, f"from streams with seed {n}", "as a batch")


def _streamed(
    spark: SparkSession,
    directory: Path,
    definition: Callable[..., DataFrame],
    data: Sequence[tuple[str | StructType, Sequence[Given]]],
    rng: random.Random,
) -> list[dict[str, Any]]:
    with StreamTest(spark, directory) as test:
        sources = [test.source(schema) for schema, _ in data]
        query = test.query(definition(*(source.frame for source in sources)))
        waiting = [list(rows) for _, rows in data]
        while any(waiting):
            for source, left in zip(sources, waiting, strict=True):
                count = rng.randint(0, max(1, len(left) // 2))
                source.add(*left[:count])
                del left[:count]
            query.run()
            if rng.random() < 0.2:  # noqa: PLR2004 - one in five
                query.restart()
        query.advance(test.now + END)
        rows = query.rows()
        changes = query.changes()
    assert not changes, changes  # noqa: S101 - the purpose of this function
    return rows


def check_same(expected: Iterable[Any], found: Iterable[Any], of: str, by: str) -> None:
    """Compares two bags of rows.

    Args:
        expected: the right ones.
        found: the ones to check.
        of: their origin.
        by: the origin of the right ones.

    Raises:
        AssertionError: they differ.
    """
    right, other = (Counter(map(_canonical, rows)) for rows in (expected, found))
    texts: list[str] = []
    for name, rows in ((f"missing {of}", right - other), (f"too many {of}", other - right)):
        if rows:
            texts += [f"{rows.total()} rows are {name}, compared with those {by}:"]
            texts += [f"  {row}" for row in list(rows.elements())[:_SHOWN]]
    if texts:
        raise AssertionError("\n".join(texts))


def _canonical(value: Any) -> str:  # noqa: ANN401 - a value of any column
    """A text that is the same for the same value: dictionaries by their keys, NaN as itself."""
    match value:
        case dict():
            return _braced(value)  # pyright: ignore[reportUnknownArgumentType]
        case Row() if hasattr(value, "__fields__"):
            return _braced(value.asDict())
        case list() | tuple():
            return f"[{', '.join(map(_canonical, value))}]"  # pyright: ignore[reportUnknownArgumentType]
        case dt.datetime():
            return value.isoformat()
        case _:
            return repr(value)


def _braced(entries: dict[Any, Any]) -> str:
    texts = [f"{k}: {_canonical(v)}" for k, v in sorted(entries.items(), key=str)]
    return f"{{{', '.join(texts)}}}"
