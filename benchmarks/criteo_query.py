"""The streams of the Criteo layout, joined again by `tailrace.examples`."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from criteo_layout import CATEGORIES, CLICKS, CONVERSIONS, IMPRESSIONS
from tailrace._bridge.literal_path import streamed

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt
    from pyspark.sql import DataFrame, SparkSession

    Longs = npt.NDArray[np.int64]

# A slice of time has no row that is older than the slice before it.
_DELAY = "1 second"
_AFTER = "30 days"
_KEYS = ("uid", "campaign")
_SCHEMAS = {
    IMPRESSIONS: "impression_id long, uid long, campaign long, served_at timestamp, cost double, "
    + ", ".join(f"{name} long" for name in CATEGORIES),
    CLICKS: "impression_id long, uid long, campaign long, clicked_at timestamp",
    CONVERSIONS: "conversion_id long, uid long, campaign long, converted_at timestamp",
}
_TIMES = {IMPRESSIONS: "served_at", CLICKS: "clicked_at", CONVERSIONS: "converted_at"}


@dataclass(frozen=True)
class Examples:
    """What came out for impressions; arrays of one length.

    Attributes:
        impression: its number.
        clicked: whether it has a click.
        conversion: the id of its conversion; -1 for none.
    """

    impression: Longs
    clicked: npt.NDArray[np.bool_]
    conversion: Longs


@dataclass(frozen=True)
class Credits:
    """What an attribution gives to clicks: arrays of one length, a value for each click that has a share.

    Attributes:
        impression: the number of the impression that was clicked.
        conversion: the id of the conversion.
        billionths: the share of it.
    """

    impression: Longs
    conversion: Longs
    billionths: Longs


@dataclass(frozen=True)
class Joined:
    """The results of both queries.

    Attributes:
        examples: of the impressions.
        clicks: the numbers of all clicks that came out.
        last, first, linear: the credits by attribution.
    """

    examples: Examples
    clicks: Longs
    last: Credits
    first: Credits
    linear: Credits


def run(spark: SparkSession, directory: Path) -> Joined:
    """Joins the streams of `criteo_layout.load` by two streaming queries, to their end.

    Args:
        spark: a session that `tailrace.configure` made.
        directory: has the streams; gets results and checkpoints.

    Raises:
        TailraceError: a query failed, and Tailrace says why.
    """
    labelled = _result(spark, directory, "labelled", _labelled(spark, directory))
    credited = _result(spark, directory, "credited", _credited(spark, directory))
    examples = Examples(
        *(labelled[name].to_numpy() for name in ("impression_id", "clicked", "conversion_id"))
    )
    shares = {name: _credits(credited, name) for name in ("last", "first", "linear")}
    return Joined(examples, credited["impression_id"].to_numpy(), **shares)


def _labelled(spark: SparkSession, directory: Path) -> DataFrame:
    """Each impression with its click and with its first conversion within 30 days."""
    made = (
        tailrace.examples(_stream(spark, directory, IMPRESSIONS), on=_KEYS, time="served_at")
        .label(
            "click",
            _stream(spark, directory, CLICKS),
            on=[*_KEYS, "impression_id"],
            time="clicked_at",
            after="0 seconds",
            match="first",
        )
        .label(
            "conversion",
            _stream(spark, directory, CONVERSIONS),
            time="converted_at",
            after=_AFTER,
            match="first",
        )
    )
    return made.stream().select(
        "impression_id",
        F.expr("size(click) > 0").alias("clicked"),
        F.expr("coalesce(get(conversion, 0).conversion_id, -1)").alias("conversion_id"),
    )


def _credited(spark: SparkSession, directory: Path) -> DataFrame:
    """Each click with the conversions that it has a share of, by three rules."""
    conversions = _stream(spark, directory, CONVERSIONS)
    made = tailrace.examples(_stream(spark, directory, CLICKS), on=_KEYS, time="clicked_at")
    rules = {
        "last": tailrace.last_touch(),
        "first": tailrace.first_touch(),
        "linear": tailrace.linear(),
    }
    for name, rule in rules.items():
        made = made.label(name, conversions, time="converted_at", after=_AFTER, attribution=rule)
    shares = {
        "last": "1000000000L",
        "first": "1000000000L",
        "linear": "CAST(e.credit * 1000000000 AS BIGINT)",
    }
    return made.stream().select(
        "impression_id",
        *(
            F.expr(f"transform({name}, e -> struct(e.conversion_id AS id, {share} AS share))").alias(name)
            for name, share in shares.items()
        ),
    )


def _stream(spark: SparkSession, directory: Path, name: str) -> DataFrame:
    files = spark.readStream.schema(_SCHEMAS[name]).option("maxFilesPerTrigger", 1)
    return files.parquet(streamed(directory / name)).withWatermark(_TIMES[name], _DELAY)


def _result(spark: SparkSession, directory: Path, name: str, frame: DataFrame) -> Any:  # noqa: ANN401
    """Runs a query to its end, and reads its result: a table of pyarrow's."""
    output = str(directory / name)
    query = (
        frame.writeStream.format("parquet")
        .option("path", output)
        .option("checkpointLocation", str(directory / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    # Not all that are there: a task that is tried again leaves a file behind, which Spark's log doesn't name.
    result = spark.read.schema(frame.schema).parquet(output)
    files = [unquote(urlparse(uri).path) for uri in result.inputFiles()]
    if not files:
        return result.limit(0).toArrow()
    return pa.concat_tables(pq.read_table(file) for file in sorted(files))


def _credits(credited: Any, name: str) -> Credits:  # noqa: ANN401 - a table of pyarrow's
    parts = [np.empty((3, 0), np.int64)]
    for batch in credited.select(["impression_id", name]).to_batches():
        of = pc.list_parent_indices(batch[name])
        shares = pc.list_flatten(batch[name])
        impressions = batch["impression_id"].take(of)
        parts.append(np.vstack([impressions, shares.field("id"), shares.field("share")]))
    return Credits(*np.concatenate(parts, axis=1))
