"""The query of an entry, over the streams of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

import tailrace
from matrix.rows import INITIAL, SCHEMAS
from tailrace.testing.values import batch_frame, struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from matrix.shape import Call, Entry

# Of each side the columns that a query reads, and those of queries with other columns.
_BASE = {
    "left": ["l_id", "key", "l_ts", "l_n", "l_note"],
    "right": ["r_id", "key", "r_ts", "r_n", "r_note"],
}
_CHANGES: dict[str, Callable[[str, list[str]], list[str]]] = {
    "base": lambda _, columns: columns,
    "added": lambda p, columns: [*columns[:3], f"{p}_extra", *columns[3:]],
    "dropped": lambda p, columns: [c for c in columns if c != f"{p}_note"],
    "widened": lambda p, columns: [
        f"cast({p}_n as bigint) as {p}_n" if c == f"{p}_n" else c for c in columns
    ],
}
_DELAY = "10 seconds"
_TIMES: dict[str, Any] = {"left_time": "l_ts", "right_time": "r_ts"}


class Build:
    """Makes the query of an entry.

    Args:
        entry: the entry.
        frames: the streams, by their side.
        root: of the run, for what lands in folders.
        shape: which columns the query reads: a key of `_CHANGES`.
        server: the address of a watermark server.
    """

    def __init__(
        self,
        entry: Entry,
        frames: Mapping[str, DataFrame],
        root: Path,
        shape: str = "base",
        server: str | None = None,
    ) -> None:
        self._entry = entry
        self._frames = frames
        self._root = root
        self._shape = shape
        self._server = server

    def result(self) -> DataFrame | DataStreamWriter:
        """The result of the last call."""
        result: Any = None
        for call in self._entry.calls:
            options = self._options(call)
            result = getattr(self, f"_{call.operator.replace('.', '_').lower()}")(result, options)
        return result.stream() if isinstance(result, tailrace.Examples) else result

    def _options(self, call: Call) -> dict[str, Any]:
        given = dict(call.options)
        if "server" in given and self._server is not None:
            given["server"] = self._server
        return given

    def _side(self, side: str, *more: str) -> DataFrame:
        """A side without its watermark."""
        prefix = side[0]
        columns = _CHANGES[self._shape](prefix, _BASE[side])
        return self._frames[side].selectExpr(*columns, *more)

    def _watched(self, side: str, *more: str) -> DataFrame:
        return self._side(side, *more).withWatermark(f"{side[0]}_ts", _DELAY)

    def _profile(self) -> DataFrame:
        return self._frames["profile"].withWatermark("p_ts", _DELAY)

    def _initial(self, side: str) -> DataFrame:
        """The rows of a side from before its stream."""
        return batch_frame(self._frames[side].sparkSession, struct(SCHEMAS[side]), INITIAL[side])

    def _join(self, left: DataFrame | None, options: dict[str, Any]) -> DataFrame:
        before = self._watched("left") if left is None else left
        return tailrace.join(before, self._watched("right"), on="key", **_TIMES, **options)

    def _as_of(self, left: DataFrame | None, options: dict[str, Any]) -> DataFrame:
        before = self._watched("left") if left is None else left
        columns = _CHANGES[self._shape]("r", _BASE["right"])
        table = self._initial("right").selectExpr(*columns) if options.pop("initial", False) else None
        return tailrace.as_of(before, self._watched("right"), on="key", **_TIMES, initial=table, **options)

    def _sync_join(self, _: None, options: dict[str, Any]) -> DataFrame:
        return tailrace.sync_join(
            self._side("left", "part"),
            self._side("right", "part", "of"),
            on=["key", ("l_id", "of")],
            left_time="l_ts",
            right_time="r_ts",
            **options,
        )

    def _examples(self, _: None, options: dict[str, Any]) -> tailrace.Examples:
        return tailrace.examples(self._watched("left"), on="key", time="l_ts", **options)

    def _examples_label(self, made: tailrace.Examples, options: dict[str, Any]) -> tailrace.Examples:
        if not hasattr(self, "_right"):
            self._right = self._watched("right")
        return made.label(options.pop("name"), self._right, time="r_ts", **options)

    def _examples_features(self, made: tailrace.Examples, options: dict[str, Any]) -> tailrace.Examples:
        table = self._initial("profile") if options.pop("initial", False) else None
        return made.features(options.pop("name"), self._profile(), time="p_ts", initial=table, **options)

    def _examples_horizons(self, made: tailrace.Examples, options: dict[str, Any]) -> tailrace.Examples:
        return made.horizons(*options.pop("horizons"), **options)

    def _examples_sample(self, made: tailrace.Examples, options: dict[str, Any]) -> tailrace.Examples:
        return made.sample(options.pop("rates", None), **options)

    def _attribution(self, made: tailrace.Examples, _: dict[str, Any]) -> tailrace.Examples:
        """An option of the label has it."""
        return made

    _last_touch = _first_touch = _linear = _time_decay = _position = _attribution

    def _accurate_watermark(self, _: None, options: dict[str, Any]) -> DataFrame:
        frame = self._side("left", "host")
        return tailrace.accurate_watermark(frame, "l_ts", host="host", **options)

    def _stamped_watermark(self, _: None, options: dict[str, Any]) -> DataFrame:
        return tailrace.stamped_watermark(self._frames["stamped"], "l_ts", **options)

    def _stamp_watermark(self, frame: DataFrame | None, options: dict[str, Any]) -> DataFrame:
        return tailrace.stamp_watermark(self._watched("left") if frame is None else frame, **options)

    def _count(self, frame: DataFrame, _: dict[str, Any]) -> DataFrame:
        """What counts by the watermark."""
        counted = frame.groupBy(F.window("l_ts", "10 seconds").alias("w"), "key").count()
        return counted.selectExpr("w.start AS begin", "key", "count")

    def _write_windows(self, frame: DataFrame, options: dict[str, Any]) -> DataStreamWriter:
        return tailrace.write_windows(frame, self._root / "out", "l_ts", **options)

    def _stream_metadata(self, _: None, options: dict[str, Any]) -> DataFrame:
        metadata = tailrace.stream_metadata("pid", "source", "position", **options)
        return self._frames["log"].withColumn("key", metadata)

    def _filter_replays(self, frame: DataFrame | None, options: dict[str, Any]) -> DataFrame:
        if frame is None:
            return tailrace.filter_replays(
                self._frames["log"], pid="pid", partition="source", offset="position", **options
            )
        return tailrace.filter_replays(frame, **options)

    def _recursively(self, _: None, options: dict[str, Any]) -> DataFrame:
        below = "l_n - 1 AS l_n"
        rows = self._frames["left"].select("l_id", "l_n")
        return tailrace.recursively(rows, lambda u: u.where("l_n > 0").selectExpr("l_id", below), **options)
