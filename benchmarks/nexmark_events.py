"""Nexmark's events, of the published shape, from a seed.

Of 50 events, one is a new person, three are new auctions and 46 are bids, 10,000 events a second of event
time, in order. Half of the bids are for one hot auction, the first of the last hundred; the others are for
one of the last hundred, or of the ten that come next. Three of four auctions have one hot seller, three of
four bids one hot bidder; the others are among the last thousand persons and the ten that come next. Prices,
lengths and the number of categories are the published ones too. Strings are random letters, without the
blanks that the original has.

The code is our own. The shape is that of github.com/nexmark/nexmark.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workload import EPOCH_MS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    Longs = npt.NDArray[np.int64]

PERSON, AUCTION, BID = "person", "auction", "bid"
KINDS = (PERSON, AUCTION, BID)
SCHEMAS = {
    PERSON: "id long, name string, emailAddress string, creditCard string, city string, state string, "
    "dateTime timestamp, extra string",
    AUCTION: "id long, itemName string, description string, initialBid long, reserve long, "
    "dateTime timestamp, expires timestamp, seller long, category long, extra string",
    BID: "auction long, bidder long, price long, channel string, url string, "
    "dateTime timestamp, extra string",
}
FIRST_ID = 1000  # of persons and of auctions
HOUR_MS = 3_600_000

_ROUND = 50  # events: a person, three auctions, and bids
_AUCTIONS = 3
_RATE = 10_000
_BIDS_AT = 1 + _AUCTIONS
_LEAD = 10
_HOT_EVERY = 100
_IN_FLIGHT = 100
_ACTIVE = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_SIZES = {PERSON: 200, AUCTION: 500, BID: 100}
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_FIRST_MTIME = 1_600_000_000


@dataclass(frozen=True)
class Events:
    """What has been written: `path`/person, `path`/auction and `path`/bid, with their numbers of rows."""

    path: Path
    rows: dict[str, int]


def write(path: Path, events: int, slices: int, seed: int = 7) -> Events:
    """Writes a file of each kind for each slice, and a last one that the watermark passes all by.

    Args:
        path: a directory that isn't there yet.
        events: how many, of all kinds, before the last ones; rounded down to whole fifties.
        slices: files of each kind before the last.
        seed: of the random numbers: the same arguments make the same files.
    """
    for kind in KINDS:
        (path / kind).mkdir(parents=True)
    rounds = np.linspace(0, events // _ROUND, slices + 1).astype(np.int64)
    rows = dict.fromkeys(KINDS, 0)
    for i in range(slices + 1):
        made = (
            _slice(np.random.default_rng([seed, i]), np.arange(rounds[i], rounds[i + 1]))
            if i < slices
            else _last(int(rounds[-1]))
        )
        for kind, table in made.items():
            file = path / kind / f"{i:05d}.parquet"
            pq.write_table(table, file)
            os.utime(file, (_FIRST_MTIME + i, _FIRST_MTIME + i))
            rows[kind] += table.num_rows
    return Events(path, rows)


def write_flat(events: Events, kinds: Sequence[str], path: Path) -> None:
    """Writes the events of some kinds for a program that reads no Parquet: `path`/0 and `path`/1.

    Each has every other event, in the order of time. An event has, in little-endian order, the
    bytes that follow (int), the kind (byte), all numbers and times (longs, times in ms), the lengths of all
    strings (ints), and the strings.
    """
    path.mkdir()
    with (path / "0").open("wb") as even, (path / "1").open("wb") as odd:
        for name in sorted(file.name for file in (events.path / kinds[0]).iterdir()):
            tables = [(kind, pq.read_table(events.path / kind / name)) for kind in kinds]
            times = np.concatenate([_ms(table["dateTime"]) for _, table in tables])
            records = pa.concat_arrays([_records(KINDS.index(kind), table) for kind, table in tables])
            order = np.argsort(times, kind="stable")
            for file, first in ((even, 0), (odd, 1)):
                for one in records.take(pa.array(order[first::2])).to_pylist():
                    file.write(one)


def _ms(times: Any) -> Longs:  # noqa: ANN401 - pyarrow's types are incomplete
    micros: Longs = times.cast(pa.int64()).to_numpy()
    return micros // 1000


def _records(number: int, table: Any) -> Any:  # noqa: ANN401 - pyarrow's types are incomplete
    texts = [c.combine_chunks() for c in table.columns if pa.types.is_string(c.type)]
    numbers = [
        _ms(c) if pa.types.is_timestamp(c.type) else c.to_numpy()
        for c in table.columns
        if not pa.types.is_string(c.type)
    ]
    lengths = [pc.binary_length(text).to_numpy() for text in texts]
    head = np.zeros(
        len(table),
        np.dtype(
            [("size", "<i4"), ("kind", "u1")]
            + [(f"n{i}", "<i8") for i in range(len(numbers))]
            + [(f"l{i}", "<i4") for i in range(len(lengths))]
        ),
    )
    head["kind"] = number
    head["size"] = head.dtype.itemsize - 4 + sum(lengths)
    for i, values in enumerate(numbers):
        head[f"n{i}"] = values
    for i, values in enumerate(lengths):
        head[f"l{i}"] = values
    width = head.dtype.itemsize
    heads = pa.Array.from_buffers(pa.binary(width), len(table), [None, pa.py_buffer(head.tobytes())])
    bytes_of = [heads.cast(pa.binary()), *(text.cast(pa.binary()) for text in texts)]
    return pc.binary_join_element_wise(*bytes_of, b"")


def _slice(rng: np.random.Generator, rounds: Longs) -> dict[str, Any]:
    """All events of some rounds of fifty."""
    auctions = np.repeat(rounds, _AUCTIONS)
    bids = np.repeat(rounds, _ROUND - _BIDS_AT)
    places = {
        PERSON: np.zeros_like(rounds),
        AUCTION: np.tile(np.arange(1, _BIDS_AT), len(rounds)),
        BID: np.tile(np.arange(_BIDS_AT, _ROUND), len(rounds)),
    }
    number = {
        kind: of * _ROUND + places[kind] for kind, of in zip(KINDS, (rounds, auctions, bids), strict=True)
    }
    times = {kind: EPOCH_MS + n * 1000 // _RATE for kind, n in number.items()}
    ids = auctions * _AUCTIONS + places[AUCTION] - 1
    return {
        PERSON: _persons(rng, rounds + FIRST_ID, times[PERSON]),
        AUCTION: _auctions(rng, ids + FIRST_ID, times[AUCTION], _people(rng, auctions, 0)),
        BID: _bids(rng, _hot_auctions(rng, bids), times[BID], _people(rng, bids, 1)),
    }


def _hot_auctions(rng: np.random.Generator, rounds: Longs) -> Longs:
    """For each bid the auction that it is for."""
    last = rounds * _AUCTIONS + _AUCTIONS - 1
    first = np.maximum(last - _IN_FLIGHT, 0)
    cold = rng.integers(first, last + 1 + _LEAD)
    hot = last // _HOT_EVERY * _HOT_EVERY
    return FIRST_ID + np.where(rng.random(len(rounds)) < 1 / 2, hot, cold)


def _people(rng: np.random.Generator, rounds: Longs, place: int) -> Longs:
    """For each event a person: the hot one is at a place of its hundred, so that sellers aren't bidders."""
    people = rounds + 1
    cold = people - np.minimum(people, _ACTIVE) + rng.integers(0, np.minimum(people, _ACTIVE) + _LEAD)
    hot = rounds // _HOT_EVERY * _HOT_EVERY + place
    return FIRST_ID + np.where(rng.random(len(rounds)) < 3 / 4, hot, cold)


def _letters(rng: np.random.Generator, lengths: Longs) -> Any:  # noqa: ANN401
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = rng.integers(ord("a"), ord("z") + 1, int(ends[-1]), dtype=np.uint8)
    return pa.StringArray.from_buffers(
        len(lengths), pa.py_buffer(ends.tobytes()), pa.py_buffer(letters.tobytes())
    )


def _words(rng: np.random.Generator, count: int, longest: int) -> Any:  # noqa: ANN401
    return _letters(rng, rng.integers(3, longest, count))


def _one_of(rng: np.random.Generator, names: Sequence[str], count: int) -> Any:  # noqa: ANN401
    return pa.array(names).take(rng.integers(0, len(names), count))


def _joined(*parts: Any) -> Any:  # noqa: ANN401
    return pc.binary_join_element_wise(*parts, "")


def _extra(rng: np.random.Generator, kind: str, numbers: int, texts: Sequence[Any]) -> Any:  # noqa: ANN401
    """Letters that bring an event to its average size."""
    used = 8 * numbers + sum(pc.binary_length(text).to_numpy() for text in texts)
    left = np.maximum(_SIZES[kind] - used, 0)
    spread = np.rint(left * 0.2).astype(np.int64)
    return _letters(rng, left - spread + rng.integers(0, np.maximum(2 * spread, 1)))


def _prices(rng: np.random.Generator, count: int) -> Longs:
    return np.rint(100 * 10 ** (6 * rng.random(count))).astype(np.int64)


def _instants(ms: Longs) -> Any:  # noqa: ANN401
    return pa.array(ms * 1000, pa.timestamp("us", "UTC"))


def _persons(rng: np.random.Generator, ids: Longs, times: Longs) -> Any:  # noqa: ANN401
    n = len(ids)
    digits: list[Any] = [pa.array(np.char.zfill(rng.integers(0, 10_000, n).astype(str), 4)) for _ in range(4)]
    texts = {
        "name": _joined(_words(rng, n, 7), " ", _words(rng, n, 9)),
        "emailAddress": _joined(_words(rng, n, 7), "@", _words(rng, n, 5), ".com"),
        "creditCard": pc.binary_join_element_wise(*digits, " "),
        "city": _one_of(rng, _CITIES, n),
        "state": _one_of(rng, _STATES, n),
    }
    extra = _extra(rng, PERSON, 1, list(texts.values()))
    return pa.table({"id": ids, **texts, "dateTime": _instants(times), "extra": extra})


def _auctions(rng: np.random.Generator, ids: Longs, times: Longs, sellers: Longs) -> Any:  # noqa: ANN401
    n = len(ids)
    texts = {"itemName": _words(rng, n, 20), "description": _words(rng, n, 100)}
    first = _prices(rng, n)
    horizon_ms = _IN_FLIGHT * _ROUND // _AUCTIONS * 1000 // _RATE
    return pa.table(
        {
            "id": ids,
            **texts,
            "initialBid": first,
            "reserve": first + _prices(rng, n),
            "dateTime": _instants(times),
            "expires": _instants(times + 1 + rng.integers(0, 2 * horizon_ms, n)),
            "seller": sellers,
            "category": _FIRST_CATEGORY + rng.integers(0, _CATEGORIES, n),
            "extra": _extra(rng, AUCTION, 6, list(texts.values())),
        }
    )


def _bids(rng: np.random.Generator, auctions: Longs, times: Longs, bidders: Longs) -> Any:  # noqa: ANN401
    n = len(auctions)
    known = pa.array(rng.random(n) < 1 / 2)
    other = _joined("channel-", pa.array(rng.integers(0, 10_000, n)).cast(pa.string()))
    site = [_letters(rng, np.full(n, 5)) for _ in range(3)]
    address = _joined("https://www.nexmark.com/", site[0], "/", site[1], "/", site[2], "/item.htm?query=1")
    texts = {"channel": pc.if_else(known, _one_of(rng, _CHANNELS, n), other), "url": address}
    return pa.table(
        {
            "auction": auctions,
            "bidder": bidders,
            "price": _prices(rng, n),
            **texts,
            "dateTime": _instants(times),
            "extra": _extra(rng, BID, 4, list(texts.values())),
        }
    )


def _last(rounds: int) -> dict[str, Any]:
    """An hour later: an event of each kind that belongs to nothing, by its negative keys."""
    rng = np.random.default_rng(0)
    time = np.array([EPOCH_MS + rounds * _ROUND * 1000 // _RATE + HOUR_MS])
    one, other = np.array([-1]), np.array([-2])
    return {
        PERSON: _persons(rng, one, time),
        AUCTION: _auctions(rng, one, time, other),
        BID: _bids(rng, other, time, one),
    }
