"""Random impressions and events, with their credits by brute force.

Some impressions are equal, and some labels begin at a time, or with a restart.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import tailrace
from example_cases import ATTRIBUTIONS, Attributed
from oracles import WHOLE
from streams import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest

IMPRESSION = "user long, item int, kind int, at timestamp"
EVENT = "event long, user long, item int, at timestamp"
FAR = 5000

# Impressions of one user, item and time: two of one kind are equal, and so are those of 9 and 12. The others
# differ in where a null is inside, in a map whose text is the same, in the sign of a zero, and so on.
KINDS = 13
_CONTENT = [
    "CASE kind WHEN 0 THEN array(1, null) WHEN 1 THEN array(null, 1) ELSE array(cast(null AS int)) END AS xs",
    "named_struct('p', if(kind = 2, null, 'a'), 'q', if(kind = 3, null, 'a')) AS pair",
    "array(named_struct('p', if(kind = 4, null, 1), 'q', if(kind = 5, null, 1))) AS pairs",
    "if(kind = 6, map('a', 'b, c -> d'), map('a', 'b', 'c', 'd')) AS held",
    "parse_json(if(kind = 7, '[1, null]', '[null, 1]')) AS v",
    # Of an array: as the two branches of a condition both are one for Spark's optimizer.
    "element_at(array(-0.0D, 0.0D), if(kind = 8, 1, 2)) AS zero",
    "cast(CASE kind WHEN 10 THEN 'NaN' WHEN 11 THEN 'Infinity' ELSE '1' END AS float) AS number",
]


class Served(NamedTuple):
    user: int | None
    item: int | None
    kind: int
    second: int


class Happened(NamedTuple):
    event: int
    user: int | None
    item: int | None
    second: int


@dataclass(frozen=True)
class Credited:
    """A label with an attribution.

    Attributes:
        start: the number of the first start that has it.
        since: impressions before this second haven't the label; None: all have it.
    """

    name: str
    on: tuple[str, ...]
    before: int
    after: int
    attributed: Attributed
    start: int = 0
    since: int | None = None

    def holds(self, left: Served, event: Happened) -> bool:
        keys = [(getattr(left, key), getattr(event, key)) for key in self.on]
        return (
            all(a is not None and a == b for a, b in keys)
            and left.second - self.before <= event.second <= left.second + self.after
            and left.second >= (self.since or 0)
        )

    def shares(self, event: Happened, lefts: list[Served]) -> list[int]:
        """The billionths that the impressions have, in any order, without zeros."""
        seconds = sorted(left.second for left in lefts if self.holds(left, event))
        if not seconds:
            return []
        weights = self.attributed.weights([abs(event.second - second) for second in seconds])
        shares = [int(weight * WHOLE / sum(weights)) for weight in weights]
        shares[-1] = WHOLE - sum(shares[:-1])
        return sorted(share for share in shares if share)


@dataclass(frozen=True)
class CreditCase:
    labels: list[Credited]
    lefts: list[Served]
    events: list[Happened]
    horizons: tuple[int, ...] = ()
    # Of the start in which each row is read; a batch has one.
    starts: dict[Served | Happened, int] = field(default_factory=dict)

    def define(self, impressions: DataFrame, events: DataFrame, start: int) -> DataFrame:
        made = tailrace.examples(
            impressions.selectExpr("user", "item", *_CONTENT, "at"), on=["user"], time="at"
        )
        for label in self.labels:
            if label.start <= start:
                made = made.label(
                    label.name,
                    events,
                    on=list(label.on),
                    time="at",
                    before=f"{label.before} seconds",
                    after=f"{label.after} seconds",
                    attribution=label.attributed.ours,
                    since=None if label.since is None else at(label.since),
                )
        if self.horizons:
            made = made.horizons(*(f"{end} seconds" for end in self.horizons))
        frame = made.stream() if impressions.isStreaming else made.batch()
        content = ["user", "item", "date_format(at, 'HH:mm:ss') AS at", "to_json(v) AS v"]
        content += [f"to_json(struct({name})) AS {name}" for name in ("xs", "pair", "pairs", "held")]
        content += ["string(zero) AS zero", "string(number) AS number"]
        labels = [label.name for label in self.labels if label.start <= start]
        final = ["final"] if self.horizons else []
        return frame.where("user >= 0 OR user IS NULL").selectExpr(*content, *labels, *final)

    def check(self, rows: list[dict[str, Any]], told: object) -> None:
        """The credits of each event sum to one, or none may have it, and are those of brute force."""
        rows = [row for row in rows if row.get("final", True)]
        assert len(rows) == len(self.lefts), told
        for label in self.labels:
            found: dict[int, list[int]] = {}
            for row in rows:
                for event in row.get(label.name) or []:
                    share = int(event.get("credit", Decimal(1)) * WHOLE)
                    found.setdefault(event["event"], []).append(share)
            lefts = [left for left in self.lefts if self.starts.get(left, 0) >= label.start]
            for event in self.events:
                if self.starts.get(event, 0) < label.start:
                    continue
                expected, shares = label.shares(event, lefts), sorted(found.pop(event.event, []))
                assert sum(shares) == (WHOLE if expected else 0), (told, label, event, shares)
                assert len(shares) == len(expected), (told, label, event, shares, expected)
                # The last touch has what the rounding of all others leaves.
                near = [abs(a - b) <= len(shares) for a, b in zip(shares, expected, strict=True)]
                assert all(near), (told, label, event, shares, expected)
            assert not found, (told, label, found)


def as_counted(rows: list[dict[str, Any]]) -> Counter[str]:
    """Rows that have no order, and of which some are equal."""

    def shown(value: Any) -> Any:  # noqa: ANN401
        # An event is known by its number.
        return [[e["event"], str(e.get("credit"))] for e in value] if isinstance(value, list) else value

    texts = ({name: shown(value) for name, value in row.items()} for row in rows)
    return Counter(json.dumps(row, sort_keys=True) for row in texts)


def random_case(seed: int, *, horizons: bool = False, starts: int = 0, since: bool = False) -> CreditCase:
    """Few times and few users, so that very many impressions are of one time.

    Args:
        starts: a label may come with one of so many.
    """
    draw = random.Random(seed)
    labels: list[Credited] = []
    for name in ("click", "buy", "share")[: draw.randint(1, 3)]:
        start = draw.randrange(starts) if starts and labels else 0
        labels.append(
            Credited(
                name,
                draw.choice([("user",), ("user", "item")]),
                # A query that starts again can look no further back than before.
                0 if horizons or start else draw.choice([0, 5, 15]),
                draw.choice([0, 10]) if start else draw.choice([0, 10, 60]),
                draw.choice(ATTRIBUTIONS),
                start,
                draw.randrange(80) if start or (since and draw.random() < 0.7) else None,
            )
        )
    if starts:
        # The longest windows are those of the first label, so that the join looks far enough back.
        labels[0] = Credited("click", ("user",), 15, 60, labels[0].attributed)
    some = [draw.randrange(100) for _ in range(20)]

    def key(most: int) -> int | None:
        return None if draw.random() < 0.05 else draw.randrange(most)

    lefts = [Served(key(2), key(2), draw.randrange(KINDS), draw.choice(some)) for _ in range(120)]
    events = [
        Happened(i, key(2), key(2), draw.choice([draw.choice(some), draw.randrange(160)])) for i in range(60)
    ]
    ends = draw.choice([(0,), (5, 10), (3, 30)]) if horizons else ()
    longest = max(label.after for label in labels)
    return CreditCase(labels, lefts, events, tuple(end for end in ends if end < longest))


def batch(spark: SparkSession, case: CreditCase) -> list[dict[str, Any]]:
    impressions = spark.createDataFrame([(*left[:-1], at(left.second)) for left in case.lefts], IMPRESSION)
    events = spark.createDataFrame([(*event[:-1], at(event.second)) for event in case.events], EVENT)
    return [row.asDict(recursive=True) for row in case.define(impressions, events, 0).collect()]


def streamed(case: CreditCase, test: StreamTest, draw: random.Random, starts: int) -> list[dict[str, Any]]:
    """The rows of a query that is started so often, with the labels that have come by then.

    Notes in which start each row was read. Equal impressions are read in one.
    """
    served, happened = test.source(IMPRESSION), test.source(EVENT)
    impressions, engagements = (
        source.frame.withWatermark("at", "200 seconds") for source in (served, happened)
    )
    waiting: list[Any] = [*case.lefts, *case.events]
    parts = {row: draw.randrange(starts) for row in waiting}
    with test.query(case.define(impressions, engagements, 0)) as query:
        for start in range(starts):
            if start:
                query.stop()
                query.restart(case.define(impressions, engagements, start))
            of_start = [row for row in waiting if parts[row] == start]
            draw.shuffle(of_start)
            for rows in (of_start[: len(of_start) // 2], of_start[len(of_start) // 2 :]):
                lefts = [row for row in rows if isinstance(row, Served)]
                events = [row for row in rows if isinstance(row, Happened)]
                served.add(*((*row[:-1], at(row.second)) for row in lefts))
                happened.add(*((*row[:-1], at(row.second)) for row in events))
                query.run()
        served.add((-1, 0, 0, at(FAR)))
        happened.add((-1, -1, 0, at(FAR)))
        query.run()
        case.starts.update(parts)
        return query.rows()
