"""A file in the layout of the Criteo attribution data set: what is read of it, and which is refused."""

from __future__ import annotations

import gzip
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import criteo_layout
import criteo_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINE: dict[str, object] = {
    "timestamp": 100,
    "uid": 7,
    "campaign": 42,
    "conversion": 0,
    "conversion_timestamp": -1,
    "conversion_id": -1,
    "attribution": 0,
    "click": 0,
    "click_pos": -1,
    "click_nb": -1,
    "cost": 0.5,
    "cpo": 0.25,
    "time_since_last_click": -1,
    **{f"cat{i}": i for i in range(1, 10)},
}


def written(path: Path, *lines: dict[str, object], columns: tuple[str, ...] = criteo_layout.COLUMNS) -> Path:
    rows = [columns, *([str(line[name]) for name in columns] for line in lines)]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


def rows_of(directory: Path, stream: str) -> list[dict[str, Any]]:
    """Of all files of a stream, in the order in which they are read, without the last one."""
    files = sorted((directory / stream).iterdir(), key=lambda file: file.stat().st_mtime)
    return [row for file in files[:-1] for row in pq.read_table(file).to_pylist()]


def streams(directory: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: rows_of(directory, name) for name in ("impressions", "clicks", "conversions")}


def test_a_line_is_an_impression_and_what_became_of_it(tmp_path: Path) -> None:
    bought: dict[str, object] = {"conversion": 1, "conversion_timestamp": 900, "conversion_id": 5}
    file = written(tmp_path / "file", LINE, LINE | bought | {"timestamp": 300, "click": 1}, LINE | bought)
    told = criteo_layout.load(file, tmp_path, slices=8)
    found = streams(tmp_path)
    keys = [(row["impression_id"], row["uid"], row["campaign"], row["cost"]) for row in found["impressions"]]
    assert sorted(keys) == [(0, 7, 42, 0.5), (1, 7, 42, 0.5), (2, 7, 42, 0.5)]
    seconds = [int(row["served_at"].timestamp()) - criteo_layout.EPOCH_S for row in found["impressions"]]
    assert seconds == [100, 100, 300]
    assert found["impressions"][0]["cat9"] == 9
    assert [(row["impression_id"], int(row["clicked_at"].timestamp())) for row in found["clicks"]] == [
        (1, criteo_layout.EPOCH_S + 300)
    ]
    # Two lines name it, and it is there once.
    assert [(row["conversion_id"], int(row["converted_at"].timestamp())) for row in found["conversions"]] == [
        (5, criteo_layout.EPOCH_S + 900)
    ]
    assert (len(told), told.conversions, told.disagreeing) == (3, 1, 0)


def test_no_slice_has_a_row_that_is_older_than_the_slice_before(tmp_path: Path) -> None:
    criteo_sample.write(tmp_path / "file")
    told = criteo_layout.load(tmp_path / "file", tmp_path, slices=7)
    for stream, time in (
        ("impressions", "served_at"),
        ("clicks", "clicked_at"),
        ("conversions", "converted_at"),
    ):
        newest = 0
        files = sorted((tmp_path / stream).iterdir())
        assert [file.stat().st_mtime for file in files] == [1_600_000_000 + i for i in range(8)]
        for file in files:
            times = pq.read_table(file)[time].cast(pa.int64()).to_numpy()
            assert times.min(initial=2**62) > newest
            newest = max(newest, int(times.max(initial=0)))
    assert len(rows_of(tmp_path, "impressions")) == len(told) > 1_000
    assert len(rows_of(tmp_path, "clicks")) == (told["click"] == 1).sum() > 100
    assert len(rows_of(tmp_path, "conversions")) == told.conversions > 100


def test_the_same_seed_makes_the_same_small_sample(tmp_path: Path) -> None:
    for name in ("first", "second"):
        criteo_sample.write(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert (tmp_path / "first").stat().st_size < 200_000


def test_lines_and_columns_may_be_in_any_order_compressed_or_not(tmp_path: Path) -> None:
    criteo_sample.write(tmp_path / "sample")
    header, *lines = gzip.decompress((tmp_path / "sample").read_bytes()).decode().splitlines()
    random.Random(3).shuffle(lines)
    order = [*reversed(range(len(criteo_layout.COLUMNS)))]
    moved = ["\t".join(line.split("\t")[i] for i in order) for line in (header, *lines)]
    (tmp_path / "moved.tsv").write_text("\n".join(moved) + "\n")
    found = {}
    for name in ("sample", "moved.tsv"):
        directory = tmp_path / f"streams-of-{name}"
        directory.mkdir()
        criteo_layout.load(tmp_path / name, directory, slices=4)
        found[name] = {
            stream: sorted(
                tuple(value for column, value in row.items() if column != "impression_id") for row in rows
            )
            for stream, rows in streams(directory).items()
        }
    assert found["moved.tsv"] == found["sample"]


def test_a_conversion_without_an_id_is_no_event(tmp_path: Path) -> None:
    line = LINE | {"conversion": 1, "conversion_timestamp": 900, "conversion_id": -1}
    told = criteo_layout.load(written(tmp_path / "file", line, LINE), tmp_path, slices=2)
    assert rows_of(tmp_path, "conversions") == []
    assert told.in_stream.tolist() == [False, False]
    assert told["conversion"].tolist() == [1, 0]


def test_lines_of_a_conversion_that_disagree_are_counted_and_the_first_one_holds(tmp_path: Path) -> None:
    bought = LINE | {"conversion": 1, "conversion_timestamp": 900, "conversion_id": 5}
    file = written(tmp_path / "file", bought, bought | {"uid": 8}, bought | {"conversion_id": 6})
    told = criteo_layout.load(file, tmp_path, slices=1)
    assert (told.conversions, told.disagreeing) == (2, 1)
    assert [(row["conversion_id"], row["uid"]) for row in rows_of(tmp_path, "conversions")] == [
        (5, 7),
        (6, 7),
    ]


REFUSED: dict[str, Callable[[Path], object]] = {
    "it has no column `uid`, `cat9`": lambda path: written(
        path, LINE, columns=tuple(name for name in criteo_layout.COLUMNS if name not in {"uid", "cat9"})
    ),
    "it has no impressions": written,
    "[Ee]mpty CSV file": lambda path: path.write_text(""),
    "conversion error to int64: invalid value 'seven'": lambda path: written(
        path, LINE, LINE | {"uid": "seven"}
    ),
    "`uid` is empty in a line": lambda path: written(path, LINE, LINE | {"uid": ""}),
    "`click` has a value that is neither 0 nor 1": lambda path: written(path, LINE | {"click": -1}),
    "`timestamp` has a value out of range": lambda path: written(path, LINE | {"timestamp": 2**40}),
    "a time isn't in seconds since the first impression": lambda path: written(
        path, LINE | {"timestamp": 1_700_000_000}
    ),
    "Expected 22 columns, got 21": lambda path: path.write_text(
        written(path, LINE, LINE).read_text().removesuffix("\t9\n") + "\n"
    ),
    "No such file": lambda path: path,
    "Is a directory": lambda path: path.mkdir(),
    "ended before the end-of-stream marker": lambda path: path.write_bytes(
        gzip.compress(b"timestamp\tuid" * 99)[:-9]
    ),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_a_file_of_another_layout_is_refused(problem: str, tmp_path: Path) -> None:
    REFUSED[problem](tmp_path / "file")
    with pytest.raises(criteo_layout.LayoutError, match=problem) as raised:
        criteo_layout.load(tmp_path / "file", tmp_path, slices=2)
    assert "It is tab-separated, has a header, and the columns timestamp, uid" in str(raised.value)
    assert str(tmp_path / "file") in str(raised.value)


def test_one_impression_alone_is_a_file(tmp_path: Path) -> None:
    told = criteo_layout.load(written(tmp_path / "file", LINE), tmp_path, slices=5)
    assert np.array_equal(told["timestamp"], [100])
    assert [len(rows) for rows in streams(tmp_path).values()] == [1, 0, 0]
