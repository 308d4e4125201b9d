"""The reader of complete windows, by what once gave it other rows than the folder has."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from landed_windows import LandedWindows, refusal
from tailrace import TailraceWatermarkError
from tailrace.reading import WindowReader, batches, ray_dataset, torch_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


@pytest.fixture
def windows(tmp_path: Path) -> LandedWindows:
    made = LandedWindows(tmp_path / "clicks")
    made.land(3, 3)
    made.land(6)
    return made


def ids(given: Iterable[pa.RecordBatch | None]) -> list[int]:
    return [int(row["id"]) for batch in given if batch is not None for row in batch.to_pylist()]


def condition(run: Callable[[], object]) -> str | None:
    return refusal(run).condition


def part(directory: Path) -> Path:
    return min(directory.glob("*.parquet"))


def test_two_passes_at_a_time_have_all_rows_each(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=2)
    first, second = zip(*zip_longest(reader, reader), strict=True)
    assert ids(first) == ids(second) == list(range(12))
    # The state is that of the newest pass, whatever an older one does.
    older, newer = iter(reader), iter(reader)
    next(newer)
    state = reader.state_dict()
    list(older)
    assert reader.state_dict() == state
    # A state that is loaded is of the next pass, and not of one that was made before.
    running = iter(reader)
    reader.load_state_dict(state)
    assert ids(running) == list(range(12))
    assert ids(reader) == list(range(2, 12))


def test_a_condition_of_many_values_differs_by_any_of_them(windows: LandedWindows) -> None:
    windows.land(60)
    values = list(range(60))
    others = [*values[:20], 70, *values[21:]]

    def reader(chosen: list[int]) -> WindowReader:
        return WindowReader(windows.path, batch_size=2, where=pc.field("id").isin(chosen))

    before = reader(values)
    next(iter(before))
    state = json.loads(json.dumps(before.state_dict()))
    same = reader(values)
    same.load_state_dict(state)
    assert ids(same) == list(range(2, 60))
    assert condition(lambda: reader(others).load_state_dict(state)) == "TAILRACE_WINDOWS_STATE"


def test_late_rows_make_up_for_no_deleted_file(windows: LandedWindows) -> None:
    directory = windows.directory(0)
    windows.write(windows.path / "_late" / directory.name / "part-9.parquet", range(100, 109))
    part(directory).unlink()
    found = condition(lambda: list(WindowReader(windows.path, late=True)))
    assert found == "TAILRACE_WINDOWS_READ_CHANGED"


def test_rows_that_were_added_to_a_complete_window(windows: LandedWindows) -> None:
    file = part(windows.directory(0))
    shutil.copy(file, file.with_name("copy.parquet"))
    assert condition(lambda: list(WindowReader(windows.path))) == "TAILRACE_WINDOWS_READ_CHANGED"


@pytest.mark.parametrize("late", [False, True])
def test_a_folder_that_is_moved_within_a_window(windows: LandedWindows, late: bool) -> None:
    name = windows.directory(0).name
    windows.write(windows.path / "_late" / name / "part-9.parquet", [100, 101])
    reader = WindowReader(windows.path, batch_size=2, late=late)
    next(iter(reader))
    state = reader.state_dict()
    rest = ids(reader)[2:]
    copied = windows.path.parent / "copied"
    shutil.copytree(windows.path, copied)
    # What happens to the former folder is nothing to the reader of the other one.
    windows.write(windows.path / "_late" / name / "part-9.parquet", [200, 201])
    moved = WindowReader(copied, batch_size=2, late=late)
    moved.load_state_dict(state)
    assert ids(moved) == rest


def test_directories_of_any_column_are_read(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(0)
    directory = windows.directory(0)
    windows.write(directory / "_mark=__HIVE_DEFAULT_PARTITION__" / "a%3Ab=x%2Fy %25" / "p.parquet", [1, 2])
    windows.mark(0, 2)
    late = windows.path / "_late" / directory.name
    windows.write(late / "_mark=amended" / "a%3Ab=z" / "p.parquet", [3])
    windows.write(late / "_temporary" / "p.parquet", [4])
    part(directory).unlink()
    rows = [
        row
        for batch in WindowReader(windows.path, columns=["id", "_mark", "a:b"], late=True)
        for row in batch.to_pylist()
    ]
    assert rows == [
        {"id": 1, "_mark": None, "a:b": "x/y %"},
        {"id": 2, "_mark": None, "a:b": "x/y %"},
        {"id": 3, "_mark": "amended", "a:b": "z"},
    ]
    names = next(iter(WindowReader(windows.path))).schema.names
    assert set(names[-2:]) == {"_mark", "a:b"}


def test_timestamps_of_any_year_are_those_that_were_written(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(3)
    times = [
        dt.datetime(9999, 12, 31, 23, 59),
        dt.datetime(1600, 1, 1),
        dt.datetime(2026, 1, 1, 0, 0, 0, 123456),
    ]
    stamps = pa.array(times, pa.timestamp("us"))
    table = pa.table({"until": stamps, "nested": pa.array([[one] for one in times], pa.list_(stamps.type))})
    # As Spark does by default.
    pq.write_table(table, part(windows.directory(0)), use_deprecated_int96_timestamps=True)
    (batch,) = WindowReader(windows.path)
    assert batch.column("until").to_pylist() == times
    assert batch.column("nested").to_pylist() == [[one] for one in times]


def test_a_batch_that_arrow_cuts_has_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one with more than 2 GiB in a column."""
    take = batches.Rows.take
    monkeypatch.setattr(batches.Rows, "take", lambda self, rows: _Cut(take(self, rows)))
    rows = [pa.RecordBatch.from_pydict({"id": [at, at + 1]}) for at in range(0, 10, 2)]
    assert ids(batches.rebatched(rows, 4)) == list(range(10))


class _Cut:
    """A table whose columns can't be of one chunk."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def combine_chunks(self) -> pa.Table:
        return self._table


@pytest.mark.parametrize("path", ["", "/"])
def test_windows_in_the_root_of_a_file_system(windows: LandedWindows, path: str) -> None:
    directory = windows.directory(1)
    windows.write(windows.path / "_late" / directory.name / "part-9.parquet", [100, 101])
    inside = fs.SubTreeFileSystem(str(windows.path), fs.LocalFileSystem())
    reader = WindowReader(path, filesystem=inside, late=True, columns=["id", "window_start"])
    assert ids(reader) == [*range(12), 100, 101]


@pytest.mark.parametrize("text", ["", "text", "PAR1 and PAR1"])
def test_a_file_that_isnt_parquet(windows: LandedWindows, text: str) -> None:
    (windows.directory(0) / "part-9.parquet").write_text(text)
    assert condition(lambda: list(WindowReader(windows.path))) == "TAILRACE_WINDOWS_FILE"


def test_a_damaged_file(windows: LandedWindows) -> None:
    file = part(windows.directory(1))
    damaged = bytearray(file.read_bytes())
    damaged[4:200] = b"\x55" * 196
    file.write_bytes(damaged)
    assert condition(lambda: list(WindowReader(windows.path))) == "TAILRACE_WINDOWS_FILE"


@pytest.mark.parametrize("where", [pc.field("id"), pc.field("name").cast(pa.int64()) > 3])
def test_a_condition_without_a_value(windows: LandedWindows, where: pc.Expression) -> None:
    assert condition(lambda: list(WindowReader(windows.path, where=where))) == "TAILRACE_WINDOWS_CONDITION"


@pytest.mark.parametrize(
    "options",
    [{"where": "id > 3"}, {"where": [("id", ">", 3)]}, {"weights": 5}, {"filesystem": "local"}, {"stop": 7}]
    + [{"poll_seconds": one} for one in ("x", True)],
)
def test_options_of_wrong_types(windows: LandedWindows, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"`{next(iter(options))}`"):
        WindowReader(windows.path, **options)


@pytest.mark.parametrize("poll_seconds", [float("nan"), float("inf"), -1])
def test_a_wait_that_never_ends(windows: LandedWindows, poll_seconds: float) -> None:
    found = condition(lambda: WindowReader(windows.path, poll_seconds=poll_seconds))
    assert found == "TAILRACE_OPTION_INVALID"


@pytest.mark.parametrize("path", ["s3a://bucket/clicks", "file:///tmp/my clicks"])
def test_a_uri_that_pyarrow_doesnt_know(path: str) -> None:
    assert condition(lambda: WindowReader(path)) == "TAILRACE_OPTION_INVALID"


def test_since_the_first_time_of_all(windows: LandedWindows) -> None:
    first = dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14)))
    assert ids(WindowReader(windows.path, since=first)) == list(range(12))


def test_since_later_than_a_state(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=2)
    next(iter(reader))
    later = WindowReader(windows.path, since=windows.start(1))
    later.load_state_dict(reader.state_dict())
    with pytest.raises(TailraceWatermarkError, match="`since` is later"):
        list(later)


@pytest.mark.parametrize("changed", [{"rows": -1}, {"epoch": -1}])
def test_a_state_with_a_negative_number(windows: LandedWindows, changed: dict[str, int]) -> None:
    reader = WindowReader(windows.path)
    state = reader.state_dict() | changed
    assert condition(lambda: reader.load_state_dict(state)) == "TAILRACE_WINDOWS_STATE"


def test_a_loaded_state_that_a_dataset_would_ignore(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path)
    reader.load_state_dict(reader.state_dict())
    assert condition(lambda: torch_dataset(reader)) == "TAILRACE_WINDOWS_STATE"
    assert condition(lambda: ray_dataset(reader)) == "TAILRACE_WINDOWS_STATE"


def test_weights_of_long_integers(windows: LandedWindows) -> None:
    table = pa.table({"id": pa.array([1, 2, 3]), "weight": pa.array([2**53 + 1, 1, 2], pa.int64())})
    pq.write_table(table, part(windows.directory(0)))
    reader = WindowReader(windows.path, columns=["id"], weights="weight", until=windows.start(1))
    assert next(iter(reader)).column("weight").to_pylist()[:3] == [2.0**53, 1.0, 2.0]


def test_nullability_inside_of_a_column_may_differ(windows: LandedWindows) -> None:
    """Spark writes that of its plan, which another start of a query may not have."""
    for hour, nullable in ((2, False), (3, True)):
        kind = pa.struct([pa.field("kind", pa.string(), nullable=nullable)])
        columns: list[pa.Field[Any]] = [
            pa.field("labels", pa.list_(pa.field("element", kind, nullable=nullable))),
            pa.field("by_name", pa.map_(pa.string(), kind)),
            pa.field("context", kind),
        ]
        one = {"kind": None if nullable else "click"}
        rows = [{"labels": [one], "by_name": [("a", one)], "context": one}, dict.fromkeys(["labels"])]
        directory = windows.directory(hour)
        directory.mkdir()
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), directory / "part-0.parquet")
        windows.mark(hour, 2)
    for shuffle in (0, 10):
        reader = WindowReader(windows.path, since=windows.start(2), shuffle=shuffle)
        found = [row["labels"] for batch in reader for row in batch.to_pylist()]
        assert sorted(found, key=str) == [None, None, [{"kind": "click"}], [{"kind": None}]]


def test_a_pass_that_follows_ends_if_its_state_has_the_last_window(windows: LandedWindows) -> None:
    options: dict[str, Any] = {"until": windows.start(2), "follow": True, "poll_seconds": 0}
    first = WindowReader(windows.path, **options)
    assert ids(first) == list(range(12))
    waits = iter(range(5))
    again = WindowReader(windows.path, **options, stop=lambda: next(waits, None) is None)
    again.load_state_dict(first.state_dict())
    assert ids(again) == []
    assert next(waits, None) is not None, "it has waited for a window that it would not read"


def test_markers_and_names_that_are_no_times(windows: LandedWindows) -> None:
    (windows.path / "window_start=20261301T120000Z").mkdir()
    assert ids(WindowReader(windows.path)) == list(range(12))
    marker = windows.directory(1) / "_SUCCESS"
    report = json.loads(marker.read_text())
    marker.write_text(json.dumps(report | {"window_end": "2026-01-01T14:00:00"}))
    assert condition(lambda: list(WindowReader(windows.path))) == "TAILRACE_WINDOWS_REPORT"
