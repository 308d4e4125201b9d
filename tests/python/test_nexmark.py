"""The benchmark's Nexmark events have the published shape, and its brute-force answers are those of loops."""

from __future__ import annotations

import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import nexmark_answers
import nexmark_events
from nexmark_events import KINDS, Events

EVENTS = 20_000
_SIZES = {"person": 200, "auction": 500, "bid": 100}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return nexmark_events.write(tmp_path_factory.mktemp("nexmark") / "events", EVENTS, slices=4)


def rows_of(events: Events, kind: str) -> list[dict[str, Any]]:
    files = sorted((events.path / kind).iterdir())
    assert [file.stat().st_mtime for file in files] == sorted({file.stat().st_mtime for file in files})
    return [row for file in files[:-1] for row in pq.read_table(file).to_pylist()]


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(events: Events) -> None:
    assert events.rows == {"person": 401, "auction": 1_201, "bid": 18_401}
    for kind, share in zip(KINDS, (1, 3, 46), strict=True):
        rows = rows_of(events, kind)
        assert len(rows) == EVENTS // 50 * share
        times = [row["dateTime"] for row in rows]
        assert times == sorted(times)
        # 10,000 events a second.
        assert 1.9 < (times[-1] - times[0]).total_seconds() < 2
    assert [row["id"] for row in rows_of(events, "auction")] == list(range(1_000, 2_200))


def test_some_auctions_sellers_and_bidders_are_hot(events: Events) -> None:
    bids, auctions = rows_of(events, "bid"), rows_of(events, "auction")
    share = sum(bid["auction"] % 100 == 0 for bid in bids) / len(bids)
    assert share == pytest.approx(1 / 2, abs=0.02)
    share = sum(bid["bidder"] % 100 == 1 for bid in bids) / len(bids)
    assert share == pytest.approx(3 / 4, abs=0.02)
    share = sum(auction["seller"] % 100 == 0 for auction in auctions) / len(auctions)
    assert share == pytest.approx(3 / 4, abs=0.04)
    began = {auction["id"]: auction["dateTime"] for auction in auctions}
    late = [bid for bid in bids if began.get(bid["auction"], bid["dateTime"]) > bid["dateTime"]]
    # Some come before their auction, and of those at the end it never comes.
    assert 0 < len(late) < len(bids) / 10
    assert 0 < sum(bid["auction"] not in began for bid in bids) < 100
    assert {auction["category"] for auction in auctions} == set(range(10, 15))


@pytest.mark.parametrize("kind", KINDS)
def test_events_have_their_average_size(events: Events, kind: str) -> None:
    sizes = [sum(len(v) if isinstance(v, str) else 8 for v in row.values()) for row in rows_of(events, kind)]
    assert sum(sizes) / len(sizes) == pytest.approx(_SIZES[kind], rel=0.06)


def test_the_same_seed_makes_the_same_events(events: Events, tmp_path: Path) -> None:
    again = nexmark_events.write(tmp_path / "again", EVENTS, slices=4)
    other = nexmark_events.write(tmp_path / "other", EVENTS, slices=4, seed=8)
    for kind in KINDS:
        assert rows_of(again, kind) == rows_of(events, kind) != rows_of(other, kind)


def parsed(file: Path) -> list[tuple[int, list[Any]]]:
    """The events of a flat file: their kinds and their columns, numbers first."""
    left, found = memoryview(file.read_bytes()), []
    while left:
        (size, kind), left = struct.unpack_from("<ib", left), left[5:]
        table = pa.schema(pq.read_schema(file.parent.parent / "events" / KINDS[kind] / "00000.parquet"))
        texts = sum(pa.types.is_string(field.type) for field in table)
        numbers = struct.unpack_from(f"<{len(table) - texts}q", left)
        lengths = struct.unpack_from(f"<{texts}i", left, 8 * len(numbers))
        text, left = bytes(left[8 * len(numbers) + 4 * texts : size - 1]).decode(), left[size - 1 :]
        parts = []
        for length in lengths:
            parts.append(text[:length])
            text = text[length:]
        assert not text
        found.append((kind, [*numbers, *parts]))
    return found


@pytest.mark.slow
def test_the_flat_files_have_the_same_events(events: Events) -> None:
    flat = events.path.with_name("flat")
    nexmark_events.write_flat(events, ("bid", "auction"), flat)
    expected = []
    for kind in ("auction", "bid"):
        for file in sorted((events.path / kind).iterdir()):
            for row in pq.read_table(file).to_pylist():
                values = [
                    v if isinstance(v, (int, str)) else round(v.timestamp() * 1000) for v in row.values()
                ]
                values.sort(key=lambda value: isinstance(value, str))
                expected.append((KINDS.index(kind), values))
    halves = [parsed(flat / name) for name in ("0", "1")]
    assert abs(len(halves[0]) - len(halves[1])) <= len(list((events.path / "bid").iterdir()))
    assert sorted(halves[0] + halves[1]) == sorted(expected)


def test_answers_are_those_of_loops(events: Events) -> None:
    persons, auctions, bids = (rows_of(events, kind) for kind in KINDS)
    wanted = {auction["id"]: auction for auction in auctions if auction["category"] == 10}
    answer = nexmark_answers.expected("q20", events.path)
    assert Counter(row[0] for row in answer.elements()) == Counter(
        bid["auction"] for bid in bids if bid["auction"] in wanted
    )
    assert all(row[7] == wanted[row[0]]["itemName"] and row[14] == 10 for row in answer)
    whole = nexmark_answers.expected("q20-left", events.path)
    assert whole.total() == len(bids)
    assert Counter({row: n for row, n in whole.items() if row[14] is not None}) == answer
    windows = {(a["seller"], a["dateTime"].timestamp() // 10) for a in auctions}
    opened = [p["id"] for p in persons if (p["id"], p["dateTime"].timestamp() // 10) in windows]
    assert sorted(row[0] for row in nexmark_answers.expected("q8", events.path)) == opened
    assert 100 < len(opened) < len(persons)


def test_a_flink_answer_is_read_with_its_nulls_and_blanks(tmp_path: Path) -> None:
    row = ["7", "8", "9", "Google", "https://x", "1000", "", *["\\N"] * 9]
    (tmp_path / "out.tsv").write_text("\t".join(row) + "\n" + "\t".join(["-2", *row[1:]]) + "\n")
    answer = nexmark_answers.read_tsv("q20-left", tmp_path / "out.tsv")
    assert answer == Counter([(7, 8, 9, "Google", "https://x", 1000, "", *[None] * 9)])
    (tmp_path / "none.tsv").touch()
    assert not nexmark_answers.read_tsv("q8", tmp_path / "none.tsv")
