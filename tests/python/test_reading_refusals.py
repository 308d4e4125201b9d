"""Folders, states and options that the reader of complete windows refuses, each by its condition."""

from __future__ import annotations

import builtins
import datetime as dt
import re
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from landed_windows import LandedWindows, refusal
from tailrace.reading import WindowReader, folders, ray_dataset, refusals, torch_dataset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def windows(tmp_path: Path) -> LandedWindows:
    made = LandedWindows(tmp_path / "clicks")
    made.land(4, 4)
    made.land(3)
    return made


def test_a_folder_that_isnt_there(tmp_path: Path) -> None:
    error = refusal(lambda: list(WindowReader(tmp_path / "clicks")))
    assert error.condition == "TAILRACE_WINDOWS_NOT_FOUND"
    # Nor does it wait for a folder that may be misspelt.
    error = refusal(lambda: list(WindowReader(tmp_path / "clicks", follow=True, poll_seconds=0)))
    assert error.condition == "TAILRACE_WINDOWS_NOT_FOUND"


def test_one_window_in_place_of_its_folder(windows: LandedWindows) -> None:
    error = refusal(lambda: list(WindowReader(windows.directory(0))))
    assert error.condition == "TAILRACE_WINDOWS_NOT_FOUND"
    assert f"Name that folder, {windows.path}." in str(error)


def test_a_folder_without_a_complete_window(windows: LandedWindows) -> None:
    (windows.directory(0) / "_SUCCESS").unlink()
    (windows.directory(1) / "_SUCCESS").unlink()
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert error.condition == "TAILRACE_WINDOWS_NONE_COMPLETE"
    assert "tailrace why" in str(error)


def test_a_window_that_was_unmarked(windows: LandedWindows) -> None:
    (windows.directory(0) / "_SUCCESS").unlink()
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert error.condition == "TAILRACE_WINDOWS_ORDER"
    assert error.parameters["unmarked"] == "window_start=20260101T120000Z"


def test_a_window_that_is_marked_while_the_reader_looks_is_read(
    windows: LandedWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    (windows.directory(0) / "_SUCCESS").unlink()
    reader = WindowReader(windows.path)
    folder: Any = reader._folder
    look = folder._is_marked

    def is_marked(directory: str) -> bool:
        # write_windows marks both after the look at the first one, and before that at the second one.
        windows.mark(0, 8)
        return bool(look(directory))

    monkeypatch.setattr(folder, "_is_marked", is_marked)
    assert sum(batch.num_rows for batch in reader) == 11


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 3}', '{"format": 2, "rows": "x", "window_end": "now"}']
)
def test_a_marker_that_is_no_report(windows: LandedWindows, text: str) -> None:
    (windows.directory(0) / "_SUCCESS").write_text(text)
    assert refusal(lambda: list(WindowReader(windows.path))).condition == "TAILRACE_WINDOWS_REPORT"


def test_windows_of_two_columns(windows: LandedWindows) -> None:
    (windows.path / "day=20260101T000000Z").mkdir()
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert (error.condition, error.parameters["columns"]) == ("TAILRACE_WINDOWS_MIXED", "day, window_start")


def test_a_window_that_is_deleted_while_it_is_read(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=1)
    running = iter(reader)
    next(running)
    (windows.directory(0) / "part-00001-7-c0ffee.c000.snappy.parquet").unlink()
    error = refusal(lambda: list(running))
    assert error.condition == "TAILRACE_WINDOWS_READ_CHANGED"
    assert error.parameters["window"].endswith("window_start=20260101T120000Z")


def test_a_window_that_is_deleted_before_it_is_read(windows: LandedWindows) -> None:
    windows.land(2)
    running = iter(WindowReader(windows.path, batch_size=100))
    next(running)
    shutil.rmtree(windows.directory(1))
    error = refusal(lambda: list(running))
    assert error.condition == "TAILRACE_WINDOWS_READ_CHANGED"
    assert error.parameters["window"].endswith("window_start=20260101T130000Z")


@pytest.mark.parametrize("low", [None, 5])
def test_a_window_that_is_missing_between_complete_ones(windows: LandedWindows, low: int | None) -> None:
    windows.land(2)
    windows.land(2)
    for hour, ids in enumerate(windows.ids):
        windows.mark(hour, len(ids), low)
    shutil.rmtree(windows.directory(2))
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert error.condition == "TAILRACE_WINDOWS_MISSING"
    assert (error.parameters["missing"], error.parameters["complete"]) == (
        "20260101T140000Z",
        "20260101T150000Z",
    )
    assert refusal(WindowReader(windows.path).windows).condition == "TAILRACE_WINDOWS_MISSING"
    around = (
        WindowReader(windows.path, until=windows.start(2)),
        WindowReader(windows.path, since=windows.start(3)),
    )
    assert [sum(batch.num_rows for batch in one) for one in around] == [11, 2]
    assert len(around[0].windows()) == 2
    error = refusal(lambda: list(WindowReader(windows.path, until=windows.start(3))))
    assert error.condition == "TAILRACE_WINDOWS_MISSING"


def test_a_window_that_is_missing_behind_a_state(windows: LandedWindows) -> None:
    windows.land(2)
    reader = WindowReader(windows.path, until=windows.start(1))
    list(reader)
    for hour in (0, 1):
        shutil.rmtree(windows.directory(hour))
    late = WindowReader(windows.path)
    late.load_state_dict(reader.state_dict())
    error = refusal(lambda: list(late))
    assert (error.condition, error.parameters["missing"]) == ("TAILRACE_WINDOWS_MISSING", "20260101T130000Z")
    # The oldest windows may be deleted, and `since` goes on behind a gap.
    assert sum(batch.num_rows for batch in WindowReader(windows.path)) == 2
    later = WindowReader(windows.path, since=windows.start(2))
    later.load_state_dict(reader.state_dict())
    assert sum(batch.num_rows for batch in later) == 2


def test_windows_without_rows_that_write_windows_doesnt_mark(tmp_path: Path) -> None:
    windows = LandedWindows(tmp_path / "clicks")
    for hour in (0, 600, 1300):
        windows.mark(hour, 0, low=1301)
    assert len(WindowReader(windows.path).windows()) == 3
    # The window of 1303 is missing: its neighbours closed one by one.
    for hour in (1301, 1302, 1304):
        windows.mark(hour, 0)
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert (error.condition, error.parameters["missing"]) == (
        "TAILRACE_WINDOWS_MISSING",
        f"{windows.start(1303):%Y%m%dT%H%M%SZ}",
    )


def test_a_window_without_rows_that_closes_while_the_reader_looks_is_read(
    windows: LandedWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows.land(2)
    windows.land(2)
    shutil.rmtree(windows.directory(2))
    reader = WindowReader(windows.path)
    folder: Any = reader._folder
    look = folder._window

    def window(directory: str) -> Any:  # noqa: ANN401
        # The window of 14:00 closes without rows after the directories were listed, and then that of 15:00.
        windows.mark(2, 0)
        return look(directory)

    monkeypatch.setattr(folder, "_window", window)
    assert [one.start for one in reader.windows()] == [windows.start(hour) for hour in range(4)]


def test_a_window_that_lacks_rows_of_its_report(windows: LandedWindows) -> None:
    (windows.directory(0) / "part-00000-7-c0ffee.c000.snappy.parquet").unlink()
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert error.condition == "TAILRACE_WINDOWS_READ_CHANGED"


def test_a_state_within_a_window_that_has_changed_or_is_gone(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=3)
    next(iter(reader))
    state = reader.state_dict()
    windows.write(windows.directory(0) / "part-00002-9-moved.c000.snappy.parquet", [70])
    reader.load_state_dict(state)
    assert refusal(lambda: list(reader)).condition == "TAILRACE_WINDOWS_READ_CHANGED"
    shutil.rmtree(windows.directory(0))
    reader.load_state_dict(state)
    error = refusal(lambda: list(reader))
    assert error.condition == "TAILRACE_WINDOWS_STATE"
    assert "20260101T120000Z" in str(error)


def test_a_state_with_another_order_or_none(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=3, shuffle=4, seed=1)
    next(iter(reader))
    state = reader.state_dict()
    others: list[tuple[str, dict[str, Any]]] = [
        ("shuffle", {"shuffle": 5, "seed": 1}),
        ("seed", {"shuffle": 4, "seed": 2}),
        ("world_size", {"shuffle": 4, "seed": 1, "world_size": 2}),
        ("where", {"shuffle": 4, "seed": 1, "where": pc.field("label")}),
        ("late", {"shuffle": 4, "seed": 1, "late": True}),
    ]
    for name, options in others:
        other = WindowReader(windows.path, **options)
        error = refusal(partial(other.load_state_dict, state))
        assert error.condition == "TAILRACE_WINDOWS_STATE"
        assert f"`{name}`" in str(error)
    for wrong in ({}, {**state, "format": 2}, {**state, "window": "noon"}, {**state, "rows": None}):
        error = refusal(partial(reader.load_state_dict, wrong))
        assert error.condition == "TAILRACE_WINDOWS_STATE"


def test_another_epoch_within_a_window(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=3, shuffle=4)
    reader.set_epoch(2)
    next(iter(reader))
    other = WindowReader(windows.path, shuffle=4)
    other.load_state_dict(reader.state_dict())
    assert refusal(lambda: other.set_epoch(3)).condition == "TAILRACE_WINDOWS_STATE"
    other.set_epoch(2)
    assert sum(batch.num_rows for batch in other) == 8
    other.set_epoch(3)


def test_columns_that_differ_between_windows(windows: LandedWindows) -> None:
    file = windows.directory(1) / "part-00000-7-c0ffee.c000.snappy.parquet"
    table = pq.read_table(file, partitioning=None)
    pq.write_table(table.append_column("more", pa.array([1.5] * 3)), file)
    error = refusal(lambda: list(WindowReader(windows.path)))
    assert error.condition == "TAILRACE_WINDOWS_SCHEMA"
    assert error.parameters["columns"] == "more (missing before, double here)"
    # The columns that are asked for are those of before.
    assert sum(batch.num_rows for batch in WindowReader(windows.path, columns=["id", "label"])) == 11
    pq.write_table(table.set_column(0, "id", pa.array(["a", "b", "c"])), file)
    error = refusal(lambda: list(WindowReader(windows.path, columns=["id"])))
    assert error.parameters["columns"] == "id (int64 before, string here)"
    pq.write_table(table.drop_columns(["label"]), file)
    error = refusal(lambda: list(WindowReader(windows.path, columns=["label"])))
    assert error.parameters["columns"] == "label (bool before, missing here)"


def test_a_condition_on_a_column_that_a_window_lacks(windows: LandedWindows) -> None:
    file = windows.directory(1) / "part-00000-7-c0ffee.c000.snappy.parquet"
    pq.write_table(pq.read_table(file, partitioning=None).drop_columns(["label"]), file)
    reader = WindowReader(windows.path, columns=["id"], where=pc.field("label"))
    error = refusal(lambda: list(reader))
    assert error.condition == "TAILRACE_WINDOWS_CONDITION"
    assert "label" in str(error)


@pytest.mark.parametrize(
    ("weight", "kind"),
    [(None, pa.float64()), (0.0, pa.float64()), (float("nan"), pa.float64()), (-1, pa.int32())],
)
def test_a_weight_that_isnt_positive(windows: LandedWindows, weight: float | None, kind: pa.DataType) -> None:
    for hour, rows in ((0, 4), (1, 3)):
        for file in windows.directory(hour).glob("*.parquet"):
            table = pq.read_table(file, partitioning=None)
            values = pa.array([1] * (rows - 1) + [weight if hour else 1], kind)
            pq.write_table(table.set_column(2, "weight", values), file)
    reader = WindowReader(windows.path, columns=["id"], weights="weight")
    error = refusal(lambda: list(reader))
    assert (error.condition, error.parameters["column"]) == ("TAILRACE_WINDOWS_WEIGHT", "weight")
    # The bad row is the last one.
    kept = WindowReader(windows.path, columns=["id"], weights="weight", where=pc.field("id") < 10)
    assert sum(batch.num_rows for batch in kept) == 10


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"columns": ["nobody"]}, "TAILRACE_COLUMN_NOT_FOUND"),
        ({"weights": "nobody"}, "TAILRACE_COLUMN_NOT_FOUND"),
        ({"weights": "name"}, "TAILRACE_COLUMN_TYPE"),
        ({"columns": []}, "TAILRACE_OPTION_INVALID"),
        ({"columns": ["id", "id"]}, "TAILRACE_OPTION_INVALID"),
        ({"batch_size": 0}, "TAILRACE_OPTION_INVALID"),
        ({"shuffle": -1}, "TAILRACE_OPTION_INVALID"),
        ({"seed": -1}, "TAILRACE_OPTION_INVALID"),
        ({"rank": 2, "world_size": 2}, "TAILRACE_OPTION_INVALID"),
        ({"rank": -1}, "TAILRACE_OPTION_INVALID"),
        ({"poll_seconds": -0.1}, "TAILRACE_OPTION_INVALID"),
        ({"since": dt.datetime(2026, 1, 1)}, "TAILRACE_OPTION_INVALID"),
        ({"late": True, "world_size": 2}, "TAILRACE_OPTION_CONFLICT"),
    ],
)
def test_an_option_that_cant_be(windows: LandedWindows, options: dict[str, Any], condition: str) -> None:
    error = refusal(lambda: list(WindowReader(windows.path, **options)))
    assert error.condition == condition
    assert any(f"`{name}`" in str(error) for name in options)


@pytest.mark.parametrize("options", [{"batch_size": 1.5}, {"columns": [1]}, {"follow": 1}, {"late": "yes"}])
def test_an_option_of_a_wrong_type(windows: LandedWindows, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"`{next(iter(options))}`"):
        WindowReader(windows.path, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"where": "label"}, r"an Expression such as pyarrow\.compute\.field\(.*, not str\.$"),
        ({"since": "2026-01-01"}, r"a datetime such as datetime\(2026, 1, 1, 12, tzinfo=UTC\), not str\.$"),
    ],
)
def test_text_in_place_of_an_object_gets_an_example_of_one(
    windows: LandedWindows, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(TypeError, match=f"`{next(iter(options))}` must be {says}"):
        WindowReader(windows.path, **options)


def test_late_rows_are_for_one_worker(windows: LandedWindows) -> None:
    error = refusal(lambda: WindowReader(windows.path, late=True).sharded(0, 2))
    assert (error.condition, error.parameters["argument"]) == ("TAILRACE_OPTION_CONFLICT", "late")
    assert "doesn't go together with `of`" in str(error)


@pytest.mark.parametrize("library", ["torch", "ray"])
def test_a_library_that_isnt_installed(
    windows: LandedWindows, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    real = builtins.__import__

    def imported(name: str, *others: Any) -> object:  # noqa: ANN401
        if name.partition(".")[0] == library:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", imported)
    monkeypatch.delitem(sys.modules, f"tailrace.reading._{library}", raising=False)
    make: Callable[[WindowReader], object] = torch_dataset if library == "torch" else ray_dataset
    error = refusal(lambda: make(WindowReader(windows.path)))
    assert (error.condition, error.parameters["package"]) == ("TAILRACE_WINDOWS_DEPENDENCY", library)


def test_a_shuffle_needs_numpy(windows: LandedWindows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.reading.reader.find_spec", lambda _: None)
    error = refusal(lambda: WindowReader(windows.path, shuffle=2))
    assert (error.condition, error.parameters["package"]) == ("TAILRACE_WINDOWS_DEPENDENCY", "numpy")
    assert "pip install" in str(error)
    assert sum(batch.num_rows for batch in WindowReader(windows.path)) == 11


def test_a_dataset_of_ray_has_windows_and_an_end(windows: LandedWindows, tmp_path: Path) -> None:
    error = refusal(lambda: ray_dataset(WindowReader(windows.path, follow=True)))
    assert (error.condition, error.parameters["argument"]) == ("TAILRACE_OPTION_INVALID", "follow")
    (tmp_path / "empty").mkdir()
    error = refusal(lambda: ray_dataset(WindowReader(tmp_path / "empty")))
    assert error.condition == "TAILRACE_WINDOWS_NONE_COMPLETE"
    error = refusal(lambda: ray_dataset(WindowReader(windows.path), parts_per_window=0))
    assert error.parameters["argument"] == "parts_per_window"


def test_neither_a_library_for_training_nor_a_jvm_comes_with_it() -> None:
    code = "import sys, tailrace.reading; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "ray"}.isdisjoint(done.stdout.split())


def test_a_part_that_there_isnt(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path)
    for rank, of in ((0, 0), (4, 4), (-1, 2)):
        assert refusal(partial(reader.sharded, rank, of)).condition == "TAILRACE_OPTION_INVALID"


def test_a_state_that_is_text_or_has_more_rows_than_its_window(windows: LandedWindows) -> None:
    reader = WindowReader(windows.path, batch_size=2)
    next(iter(reader))
    state = reader.state_dict()
    for other in (None, "{}", [state]):
        with pytest.raises(TypeError, match=r"`state` must be a dict of `state_dict\(\)`, not"):
            reader.load_state_dict(other)  # type: ignore[arg-type]
    assert "(it has no 'format')" in str(refusal(lambda: reader.load_state_dict({})))
    reader.load_state_dict({**state, "rows": 9})
    error = refusal(lambda: list(reader))
    assert error.condition == "TAILRACE_WINDOWS_STATE"
    assert "9 rows" in str(error)


def test_a_path_as_spark_writes_it(windows: LandedWindows) -> None:
    assert WindowReader(f"file:{windows.path}").path == str(windows.path)


@pytest.mark.parametrize(
    "refused",
    [
        partial(refusals.report, "p"),
        partial(refusals.condition, "w", "f"),
        partial(refusals.unreadable, "f"),
        partial(refusals.too_large, "w"),
        refusals.state,
    ],
)
def test_a_reason_of_another_library_ends_no_sentence_twice(refused: Callable[[str], Exception]) -> None:
    text = str(refused("It failed.\nAnd more."))
    assert "It failed" in text
    assert ".." not in text
    assert "And more" not in text


def test_the_most_empty_windows_are_those_of_the_jvm(repository: Path) -> None:
    # A reader that allowed fewer would refuse folders that `write_windows` has left so.
    source = repository / "jvm/src/main/scala/io/tailrace/windows/Windows.scala"
    (most,) = re.findall(r"val MostEmpty = (\d+)", source.read_text("utf-8"))
    assert int(most) == folders._MOST_EMPTY
