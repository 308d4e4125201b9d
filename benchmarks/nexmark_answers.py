"""What comes out of Nexmark's queries: by brute force from the events, and as the engines have written it.

An answer counts whole rows, with times in milliseconds. Rows of the events that only move the watermark are
left out: some engines still hold them when the input ends.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from nexmark_events import AUCTION, BID, PERSON
from nexmark_queries import OF_AUCTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    Answer = Counter[tuple[Any, ...]]

_CATEGORY = 10
_WINDOW_MS = 10_000
_OF_BID = ("auction", "bidder", "price", "channel", "url", "bid_dateTime", "bid_extra")
_TEXTS = {"channel", "url", "bid_extra", "itemName", "description", "auction_extra", "name"}
_COLUMNS = {
    "q8": ("id", "name", "starttime"),
    "q20": _OF_BID + OF_AUCTION,
    "q20-left": _OF_BID + OF_AUCTION,
}


def expected(query: str, events: Path) -> Answer:
    """The answer by brute force: no window in time, no order, no state."""
    auctions = list(_rows(events / AUCTION))
    if query == "q8":
        opened = {(auction["seller"], auction["dateTime"] // _WINDOW_MS) for auction in auctions}
        return _counted(
            (person["id"], person["name"], window * _WINDOW_MS)
            for person in _rows(events / PERSON)
            if (person["id"], window := person["dateTime"] // _WINDOW_MS) in opened
        )
    wanted = {
        auction["id"]: tuple(auction.values())[1:] for auction in auctions if auction["category"] == _CATEGORY
    }
    nothing = (None,) * len(OF_AUCTION)
    return _counted(
        (*bid.values(), *wanted.get(bid["auction"], nothing))
        for bid in _rows(events / BID)
        if query == "q20-left" or bid["auction"] in wanted
    )


def read_spark(query: str, output: Path) -> Answer:
    """What a query of Spark's has written, in Parquet."""
    return _counted(
        tuple(row[name] for name in _COLUMNS[query])
        for file in sorted(output.glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    )


def read_tsv(query: str, file: Path) -> Answer:
    r"""What Flink's program has written: lines of values, \N for null."""
    columns = _COLUMNS[query]
    if file.stat().st_size == 0:
        return Counter()
    table = pa_csv.read_csv(
        file,
        read_options=pa_csv.ReadOptions(column_names=list(columns)),
        parse_options=pa_csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pa_csv.ConvertOptions(
            column_types={name: pa.string() if name in _TEXTS else pa.int64() for name in columns},
            null_values=["\\N"],
            strings_can_be_null=True,
        ),
    )
    return _counted(tuple(row.values()) for row in table.to_pylist())


def _counted(rows: Iterable[tuple[Any, ...]]) -> Answer:
    return Counter(row for row in rows if row[0] >= 0)


def _rows(side: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(side.glob("*.parquet")):
        table = pq.read_table(file)
        for i, column in enumerate(table.schema):
            if pa.types.is_timestamp(column.type):
                ms = pc.divide(table[column.name].cast(pa.int64()), 1000)
                table = table.set_column(i, column.name, ms)
        yield from table.to_pylist()
