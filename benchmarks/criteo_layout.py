"""A file in the layout of the Criteo attribution data set, and the three streams that it is made of.

A line is an impression, and it says what became of it: whether it was clicked, and which conversion followed
within 30 days. What a site would have is three logs. `load` splits the file into these, in slices of time.
"""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import gzip
import os
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

IMPRESSIONS, CLICKS, CONVERSIONS = "impressions", "clicks", "conversions"
CATEGORIES = tuple(f"cat{i}" for i in range(1, 10))
COLUMNS = (
    "timestamp",
    "uid",
    "campaign",
    "conversion",
    "conversion_timestamp",
    "conversion_id",
    "attribution",
    "click",
    "click_pos",
    "click_nb",
    "cost",
    "cpo",
    "time_since_last_click",
    *CATEGORIES,
)
DAY_S = 86_400
WINDOW_S = 30 * DAY_S
EPOCH_S = 1_700_000_000  # when second 0 of the file is
CLOSING_ID = -1  # the impression that closes the streams

_DECIMALS = ("cost", "cpo")
_FLAGS = ("conversion", "attribution", "click")
_KEPT = ("uid", "campaign", "conversion_id")
_LONGEST_S = 1000 * DAY_S
_GZIP = b"\x1f\x8b"
_FIRST_MTIME = 1_600_000_000
_CLOSING_KEY = np.iinfo(np.int64).min
_TIME = pa.timestamp("us", "UTC")


def _schema(number: str, time: str, numbers: Sequence[str] = (), *, has_cost: bool = False) -> pa.Schema:
    types: dict[str, pa.DataType] = dict.fromkeys((number, "uid", "campaign"), pa.int64())
    types |= {time: _TIME} | ({"cost": pa.float64()} if has_cost else {})
    return pa.schema(types | dict.fromkeys(numbers, pa.int64()))


_SCHEMAS = {
    IMPRESSIONS: _schema("impression_id", "served_at", CATEGORIES, has_cost=True),
    CLICKS: _schema("impression_id", "clicked_at"),
    CONVERSIONS: _schema("conversion_id", "converted_at"),
}


class LayoutError(Exception):
    """A file that is none of the Criteo attribution data set. The text says what is wrong with it."""


@dataclass(frozen=True)
class Told:
    """What the file says of its impressions, in the order of its lines; arrays of one length.

    Attributes:
        columns: by the file's names: `timestamp`, `uid`, `campaign`, and all that is compared.
        conversions: how many there are, by their ids.
        disagreeing: how many of these have lines with another user, campaign or time. The first one counts.
    """

    columns: dict[str, Longs]
    conversions: int
    disagreeing: int

    def __len__(self) -> int:
        return len(self.columns["timestamp"])

    def __getitem__(self, column: str) -> Longs:
        return self.columns[column]

    @property
    def in_stream(self) -> npt.NDArray[np.bool_]:
        """Which impressions have a conversion that is in the stream: one without an id can't be."""
        found: npt.NDArray[np.bool_] = (self["conversion"] == 1) & (self["conversion_id"] >= 0)
        return found


@dataclass(frozen=True)
class _Slices:
    """Stretches of time, of equal length."""

    first: int
    width: int
    count: int

    def of(self, seconds: Longs) -> Longs:
        """The number of the slice that each time is in."""
        found: Longs = (seconds - self.first) // self.width
        return found


def load(file: Path, directory: Path, slices: int) -> Told:
    """Splits a file into streams: `directory`/impressions, /clicks and /conversions.

    Each has a Parquet file for each slice of time, and a last one with a row that closes all windows. The
    layout has no time of a click: it gets that of its impression. The file's impressions are numbered by
    their lines, from 0: `impression_id`.

    Args:
        file: tab-separated with a header, as it is or in gzip. Its lines may be in any order.
        directory: an existing one. The streams need about the space that the file takes uncompressed.
        slices: of equal time.

    Raises:
        LayoutError: there is no such file, it isn't in the layout, or it has no impressions. The text says
            what is wrong.
    """
    told = _read(file)
    times = np.concatenate([told["timestamp"], told["conversion_timestamp"][told.in_stream]])
    first, last = int(times.min()), int(times.max())
    cut = _Slices(first, (last - first) // slices + 1, slices)
    for name in _SCHEMAS:
        (directory / name).mkdir()
    start = 0
    with ExitStack() as stack:
        writers = [
            stack.enter_context(pq.ParquetWriter(_path(directory, IMPRESSIONS, i), _SCHEMAS[IMPRESSIONS]))
            for i in range(slices)
        ]
        for batch in _batches(file, ("timestamp", "uid", "campaign", "cost", *CATEGORIES)):
            seconds = batch["timestamp"].to_numpy()
            ids = np.arange(start, start + len(seconds))
            start += len(seconds)
            named = [ids, batch["uid"], batch["campaign"], _instants(seconds), batch["cost"]]
            columns = [*named, *(batch[name] for name in CATEGORIES)]
            table = pa.table(columns, schema=_SCHEMAS[IMPRESSIONS])
            of = cut.of(seconds)
            for i in np.unique(of).tolist():
                writers[i].write_table(table.filter(pa.array(of == i)))
    clicked = np.flatnonzero(told["click"] == 1)
    keys = (told["uid"][clicked], told["campaign"][clicked])
    _write(directory, CLICKS, cut, (clicked, *keys, told["timestamp"][clicked]))
    ids, rows = np.unique(told["conversion_id"][told.in_stream], return_index=True)
    rows = np.flatnonzero(told.in_stream)[rows]
    keys = (told["uid"][rows], told["campaign"][rows])
    _write(directory, CONVERSIONS, cut, (ids, *keys, told["conversion_timestamp"][rows]))
    _close(directory, slices, last + WINDOW_S + 2 * DAY_S)
    return told


def _path(directory: Path, stream: str, i: int) -> Path:
    return directory / stream / f"{i:05d}.parquet"


def _instants(seconds: Longs) -> Any:  # noqa: ANN401 - pyarrow's types are incomplete
    return pa.array((seconds + EPOCH_S) * 1_000_000, _TIME)


def _write(directory: Path, stream: str, cut: _Slices, columns: tuple[Longs, Longs, Longs, Longs]) -> None:
    """The slices of a stream, of its number, user, campaign and seconds."""
    of = cut.of(columns[3])
    for i in range(cut.count):
        number, user, campaign, seconds = (column[of == i] for column in columns)
        table = pa.table([number, user, campaign, _instants(seconds)], schema=_SCHEMAS[stream])
        pq.write_table(table, _path(directory, stream, i))


def _close(directory: Path, slices: int, second: int) -> None:
    """The last rows, of a user of their own, and the order in which files are read: that of their times."""
    for stream, schema in _SCHEMAS.items():
        fixed = {"uid": _CLOSING_KEY, "campaign": _CLOSING_KEY}
        row = [
            _instants(np.array([second])) if field.type == _TIME else [fixed.get(field.name, CLOSING_ID)]
            for field in schema
        ]
        pq.write_table(pa.table(row, schema=schema), _path(directory, stream, slices))
        for i in range(slices + 1):
            os.utime(_path(directory, stream, i), (_FIRST_MTIME + i, _FIRST_MTIME + i))


def _read(file: Path) -> Told:
    names = (*COLUMNS[:10],)
    parts: dict[str, list[Longs]] = {name: [] for name in names}
    for batch in _batches(file, names):
        for name in names:
            values = batch[name].to_numpy()
            small = np.int8 if name in _FLAGS else values.dtype if name in _KEPT else np.int32
            limits = np.iinfo(small)
            if len(values) and not limits.min <= values.min() <= values.max() <= limits.max:
                raise _wrong(file, f"`{name}` has a value out of range")
            if name in _FLAGS and not np.isin(values, (0, 1)).all():
                raise _wrong(file, f"`{name}` has a value that is neither 0 nor 1")
            parts[name].append(values.astype(small))
    columns = {name: np.concatenate(values) for name, values in parts.items() if values}
    if not columns or not len(columns["timestamp"]):
        raise _wrong(file, "it has no impressions")
    columns |= {name: columns[name].astype(np.int64) for name in ("timestamp", "conversion_timestamp")}
    told = Told(columns, *_conversions(columns))
    times = np.concatenate([told["timestamp"], told["conversion_timestamp"][told.in_stream]])
    if times.min() < 0 or times.max() > _LONGEST_S:
        raise _wrong(file, "a time isn't in seconds since the first impression")
    return told


def _conversions(columns: dict[str, Longs]) -> tuple[int, int]:
    """How many there are, and how many of them have lines that disagree."""
    told = Told(columns, 0, 0)
    rows = np.flatnonzero(told.in_stream)
    _, first, inverse = np.unique(told["conversion_id"][rows], return_index=True, return_inverse=True)
    differs = np.zeros(len(rows), bool)
    for name in ("uid", "campaign", "conversion_timestamp"):
        values = told[name][rows]
        differs |= values != values[first][inverse]
    return len(first), len(np.unique(inverse[differs]))


def _batches(file: Path, names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The file's columns by their names, some thousand lines at a time."""
    try:
        with file.open("rb") as opened:
            is_packed = opened.read(len(_GZIP)) == _GZIP
        types = {name: pa.float64() if name in _DECIMALS else pa.int64() for name in COLUMNS}
        opened_by: Any = gzip.open if is_packed else open
        with opened_by(file, "rb") as stream:
            reader = pa_csv.open_csv(
                stream,
                parse_options=pa_csv.ParseOptions(delimiter="\t"),
                convert_options=pa_csv.ConvertOptions(column_types=types),
            )
            missing = [name for name in COLUMNS if name not in reader.schema.names]
            if missing:
                raise _wrong(file, f"it has no column {', '.join(f'`{name}`' for name in missing)}")
            for batch in reader:
                empty = [name for name in COLUMNS if batch[name].null_count]
                if empty:
                    raise _wrong(file, f"`{empty[0]}` is empty in a line")
                yield {name: batch[name] for name in names}
    except (OSError, EOFError, zlib.error, pa.ArrowInvalid) as error:
        raise _wrong(file, str(error).rstrip(".")) from error


def _wrong(file: Path, what: str) -> LayoutError:
    return LayoutError(
        f"{file} can't be read as the Criteo attribution data set: {what}. It is tab-separated, has a "
        f"header, and the columns {', '.join(COLUMNS[:13])}, cat1 to cat9. The file as it is published fits, "
        "compressed or not."
    )
