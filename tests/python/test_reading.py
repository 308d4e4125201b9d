"""The reader of complete windows, held to the list of all rows."""

from __future__ import annotations

import json
import pickle
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landed_windows import LandedWindows
from tailrace.reading import WindowReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Windows of files of rows.
FILES = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=4)
SHUFFLES = st.sampled_from([0, 2, 5, 1000])


def ids(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [int(row["id"]) for batch in batches for row in batch.to_pylist()]


def flat(lists: Iterable[list[int]]) -> list[int]:
    return [one for ids in lists for one in ids]


@contextmanager
def landed(files: list[list[int]]) -> Iterator[LandedWindows]:
    with tempfile.TemporaryDirectory() as directory:
        windows = LandedWindows(Path(directory, "clicks"))
        for one in files:
            windows.land(*one)
        yield windows


@given(files=FILES, shuffle=SHUFFLES, of=st.integers(1, 5), batch_size=st.integers(1, 7))
@settings(max_examples=40, deadline=None)
def test_the_parts_of_workers_are_disjoint_and_complete(
    files: list[list[int]], shuffle: int, of: int, batch_size: int
) -> None:
    with landed(files) as windows:
        parts = [
            list(WindowReader(windows.path, rank=rank, world_size=of, shuffle=shuffle, batch_size=batch_size))
            for rank in range(of)
        ]
        assert sorted(ids(batch for part in parts for batch in part)) == sorted(flat(windows.ids))
        for hour in windows.ids:
            shares = [sum(one in hour for one in ids(part)) for part in parts]
            assert max(shares) - min(shares) <= 1
        for part in parts:
            hours = [next(n for n, hour in enumerate(windows.ids) if one in hour) for one in ids(part)]
            assert hours == sorted(hours), "windows are read in order of time"
        # As the workers of a DataLoader have them: parts of parts.
        nested = [
            ids(WindowReader(windows.path, rank=1, world_size=2).sharded(rank, of)) for rank in range(of)
        ]
        assert sorted(flat(nested)) == sorted(ids(WindowReader(windows.path, rank=1, world_size=2)))


@given(
    files=FILES,
    shuffle=SHUFFLES,
    filtered=st.booleans(),
    rank=st.integers(0, 1),
    stop=st.integers(0, 40),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
@settings(max_examples=60, deadline=None)
def test_a_pass_that_resumes_at_any_batch_has_each_row_once(
    files: list[list[int]], shuffle: int, filtered: bool, rank: int, stop: int, sizes: tuple[int, int]
) -> None:
    with landed(files) as windows:

        def reader(batch_size: int) -> WindowReader:
            where = pc.field("label") if filtered else None
            options: dict[str, Any] = {
                "shuffle": shuffle,
                "seed": 7,
                "rank": rank,
                "world_size": 2,
                "where": where,
            }
            return WindowReader(windows.path, batch_size=batch_size, **options)

        whole = ids(reader(sizes[0]))
        before, taken = reader(sizes[0]), []
        running = iter(before)
        for _ in range(stop):
            batch = next(running, None)
            if batch is None:
                break
            taken += ids([batch])
        state = json.loads(json.dumps(before.state_dict()))
        after = reader(sizes[1])
        after.load_state_dict(state)
        assert taken + ids(after) == whole
        # Another pass begins anew.
        assert ids(after) == whole


@given(files=FILES, shuffle=SHUFFLES, seed=st.integers(0, 3), epoch=st.integers(0, 2))
@settings(max_examples=30, deadline=None)
def test_the_order_depends_on_seed_and_epoch_alone(
    files: list[list[int]], shuffle: int, seed: int, epoch: int
) -> None:
    with landed(files) as windows:
        orders = []
        for batch_size in (1, 4):
            reader = WindowReader(windows.path, shuffle=shuffle, seed=seed, batch_size=batch_size)
            reader.set_epoch(epoch)
            orders.append(ids(reader))
        assert orders[0] == orders[1]


@given(files=FILES, threshold=st.integers(0, 60), of=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_condition_has_the_rows_that_it_has(files: list[list[int]], threshold: int, of: int) -> None:
    with landed(files) as windows:
        where = (pc.field("id") >= threshold) & pc.field("label")
        expected = [one for hour in windows.ids for one in hour if one >= threshold and one % 3 == 0]
        found = [
            ids(WindowReader(windows.path, columns=["id"], where=where, rank=rank, world_size=of))
            for rank in range(of)
        ]
        assert sorted(flat(found)) == expected
        if of == 1:
            assert found[0] == expected


def test_a_shuffle_shuffles_and_another_seed_or_epoch_does_it_otherwise(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    plain = windows.land(200, 200)

    def order(seed: int, epoch: int = 0, rows: int = 100) -> list[int]:
        reader = WindowReader(windows.path, shuffle=rows, seed=seed)
        reader.set_epoch(epoch)
        return ids(reader)

    orders = [order(0), order(1), order(0, 1), order(0, rows=50), plain]
    assert len({tuple(one) for one in orders}) == len(orders)
    assert all(sorted(one) == plain for one in orders)
    # Pinned: a state that was taken before an update finds the same order after it.
    assert order(0)[:6] == [24, 22, 28, 57, 19, 83]
    # From half of a buffer's rows a row moves far.
    assert max(abs(place - one) for place, one in enumerate(order(0))) > 100


def test_an_epoch_is_that_of_the_next_pass(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(50)
    windows.land(50)
    reader = WindowReader(windows.path, shuffle=100, batch_size=50)
    whole = ids(reader)
    running = iter(reader)
    first = next(running)
    reader.set_epoch(1)
    assert ids([first, *running]) == whole != ids(reader)


def test_the_shuffle_holds_no_more_rows_than_its_buffer(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(200_000, 200_000, group=4096)
    buffer = 5_000
    before = pa.total_allocated_bytes()
    reader = WindowReader(windows.path, columns=["id", "name"], shuffle=buffer, batch_size=100)
    row = pa.table({"id": list(range(10**5, 10**5 + 1000)), "name": ["n123456"] * 1000}).nbytes / 1000
    most = max(pa.total_allocated_bytes() - before for _ in reader)
    # Two buffers, a few scanned batches of 8,192 rows, and their columns before they are decoded.
    assert most < row * (2 * buffer + 8 * 8192), most
    assert most < row * 400_000 / 4


def test_columns_weights_and_batches(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(5, 3)
    windows.land()
    windows.land(4)
    batches = list(WindowReader(windows.path, columns=["name", "id"], weights="weight", batch_size=3))
    assert [batch.num_rows for batch in batches] == [3, 3, 2, 3, 1], "a batch has rows of one window"
    assert batches[0].schema.names == ["name", "id", "weight"]
    assert batches[1].to_pylist()[0] == {"name": "n3", "id": 3, "weight": 2.0}
    assert next(iter(WindowReader(windows.path))).schema.names == ["id", "label", "weight", "name"]
    named = next(iter(WindowReader(windows.path, columns=["window_start"])))
    assert set(named["window_start"].to_pylist()) == {"20260101T120000Z"}
    # A weight of another type of number is emitted as double.
    whole = next(iter(WindowReader(windows.path, columns=["label"], weights="id", where=pc.field("id") > 0)))
    assert whole.schema.field("id").type == pa.float64()
    frames = list(WindowReader(windows.path, columns=["id"]).pandas())
    assert [list(frame["id"]) for frame in frames] == [windows.ids[0], windows.ids[2]]
    (first, empty, last) = WindowReader(windows.path).windows()
    assert (first.rows, empty.rows, last.rows, last.report["passed"]) == (8, 0, 4, 2)
    assert (last.start, last.end) == (windows.start(2), windows.start(3))
    assert ids(WindowReader(windows.path).of_window(last)) == windows.ids[2]


def test_directories_inside_of_windows_are_columns_of_text(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land()
    inside = windows.directory(0)
    windows.write(inside / "country=7" / "part-0.parquet", [1, 2])
    windows.write(inside / "country=a%2Fb" / "part-0.parquet", [3])
    windows.write(inside / "country=__HIVE_DEFAULT_PARTITION__" / "part-0.parquet", [4])
    windows.write(inside / "_temporary" / "part-0.parquet", [5])
    windows.mark(0, 4)
    rows = pa.Table.from_batches(list(WindowReader(windows.path, columns=["id", "country"]))).to_pylist()
    assert {row["id"]: row["country"] for row in rows} == {1: "7", 2: "7", 3: "a/b", 4: None}
    assert ids(WindowReader(windows.path, where=pc.field("country") == "7")) == [1, 2]
    assert ids(WindowReader(windows.path, where=pc.field("country").is_null())) == [4]


def test_windows_are_read_between_two_times(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    for _ in range(4):
        windows.land(2)
    reader = WindowReader(windows.path, since=windows.start(1), until=windows.start(3))
    assert ids(reader) == windows.ids[1] + windows.ids[2]
    assert [window.start for window in reader.windows()] == [windows.start(1), windows.start(2)]
    assert ids(WindowReader(windows.path, since=windows.start(9))) == []


def test_windows_within_a_second_are_in_order_of_time(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(1)
    half = tmp_path / "clicks" / "window_start=20260101T120000.500000Z"
    windows.write(half / "part-0.parquet", [7])
    (half / "_SUCCESS").write_text((windows.directory(0) / "_SUCCESS").read_text())
    assert ids(WindowReader(windows.path)) == [0, 7]


def test_it_follows_windows_until_it_is_stopped(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.directory(0).mkdir()
    calls = []

    def stop() -> bool:
        calls.append(len(windows.ids))
        # Called before each wait and each window: it lands another one now and then.
        if len(calls) in {2, 5}:
            windows.land(2)
        return len(calls) > 8

    reader = WindowReader(windows.path, follow=True, poll_seconds=0, stop=stop)
    found = ids(reader)
    assert found == flat(windows.ids) == [0, 1, 2, 3]
    assert len(calls) == 9


def test_a_pass_that_follows_ends_with_the_last_window_that_is_asked_for(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(2)

    def stop() -> bool:
        if len(windows.ids) < 2:
            windows.land(2)
            return False
        return True

    options: dict[str, Any] = {"follow": True, "poll_seconds": 0}
    assert ids(WindowReader(windows.path, until=windows.start(1), **options)) == windows.ids[0]
    assert ids(WindowReader(windows.path, stop=stop, **options)) == windows.ids[0]


def test_what_comes_after_a_state_between_windows_may_have_other_options(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(4)
    reader = WindowReader(windows.path, batch_size=4)
    # The last batch of a window finishes it.
    next(iter(reader))
    state = reader.state_dict()
    assert (state["after"], state["window"], state["rows"]) == ("20260101T120000Z", None, 0)
    windows.land(6)
    parts = []
    for rank in range(2):
        other = WindowReader(windows.path, shuffle=3, seed=1, rank=rank, world_size=2)
        other.load_state_dict(state)
        parts += ids(other)
    assert sorted(parts) == windows.ids[1]
    # Nothing new is no error.
    reader.load_state_dict({**state, "after": "20260101T130000Z"})
    assert ids(reader) == []


def test_late_rows_are_read_if_they_are_asked_for_and_a_resumed_pass_has_those_of_before(
    tmp_path: Path,
) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(3)
    windows.land(2)
    late = windows.path / "_late" / windows.directory(0).name
    windows.write(late / "part-0.parquet", [100, 101])
    assert ids(WindowReader(windows.path)) == [0, 1, 2, 3, 4]
    reader = WindowReader(windows.path, late=True, batch_size=2)
    assert ids(reader) == [0, 1, 2, 100, 101, 3, 4]
    running = iter(reader)
    assert ids([next(running), next(running)]) == [0, 1, 2, 100]
    state = json.loads(json.dumps(reader.state_dict()))
    windows.write(late / "part-1.parquet", [102])
    other = WindowReader(windows.path, late=True)
    other.load_state_dict(state)
    assert ids(other) == [101, 3, 4]
    assert ids(other) == [0, 1, 2, 100, 101, 102, 3, 4]


def test_a_reader_is_sent_to_another_process(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(9)
    reader = WindowReader(windows.path, where=pc.field("id") > 2, shuffle=4)
    assert ids(pickle.loads(pickle.dumps(reader))) == ids(reader)  # noqa: S301


@pytest.mark.parametrize("group", [1, 3, 100])
def test_row_groups_of_any_length_are_cut_where_parts_begin(tmp_path: Path, group: int) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(7, 0, 13, group=group)
    parts = [ids(WindowReader(windows.path, rank=rank, world_size=3)) for rank in range(3)]
    assert flat(parts) == windows.ids[0]
    assert [len(part) for part in parts] == [6, 7, 7]
