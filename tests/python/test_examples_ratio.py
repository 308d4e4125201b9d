"""Negatives at a ratio to positives: `sample(ratio=...)`, in streams and in batch."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import tailrace
from example_frames import SCHEMA, examples, frame
from streams import at
from tailrace.errors import TailraceStateError
from tailrace.testing import crash_at_every_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tailrace.testing import StreamQuery, StreamTest

_AFTER = 10
_STEP = 60  # seconds of event time per micro-batch
_OVER = 160
_USERS = 300
_SEED = 7

Row = tuple[int, int, int]


def _rows(step: int, share: float) -> tuple[list[Row], list[Row]]:
    """Impressions of a step, and clicks of a share of them: (id, user, second)."""
    draw = random.Random(step)
    shown = [(step * 1000 + i, draw.randrange(_USERS), step * _STEP + i % _STEP) for i in range(240)]
    return shown, [(id_, user, s + 3) for id_, user, s in shown if draw.random() < share]


# A burst of positives in the middle.
_SHARES = (0.1, 0.05, 0.05, 0.6, 0.02, 0.1, 0.1)
_STEPS = [_rows(step, share) for step, share in enumerate(_SHARES)]
_END = (len(_SHARES) + 1) * _STEP


def _define(impressions: DataFrame, clicks: DataFrame) -> tailrace.Examples:
    made = examples(impressions, release_every="batch")
    return made.label("click", clicks, time="at", after=f"{_AFTER} seconds")


def _sampled(impressions: DataFrame, clicks: DataFrame, **given: Any) -> tailrace.Examples:  # noqa: ANN401
    options: dict[str, Any] = {"ratio": {"click": 2}, "over": f"{_OVER} seconds", "seed": _SEED} | given
    return _define(impressions, clicks).sample(**options)


class _Feed:
    """The two streams."""

    def __init__(self, test: StreamTest) -> None:
        self.sources = [test.source(SCHEMA) for _ in range(2)]
        self.frames = [source.frame.withWatermark("at", "1 second") for source in self.sources]

    def add(self, rows: Sequence[Sequence[Row]]) -> None:
        """Adds a step. The clicks reach as far as the impressions, by one of nobody."""
        shown, clicks = rows
        nobodys = [(-2, -1, shown[-1][2])]
        for source, some in zip(self.sources, (shown, [*clicks, *nobodys]), strict=True):
            source.add(*((id_, user, at(s)) for id_, user, s in some))

    def end(self) -> None:
        """A row that closes all windows."""
        self.add([[(-1, -1, _END)], []])


def _tables(spark: SparkSession, steps: Sequence[tuple[list[Row], list[Row]]] = _STEPS) -> list[DataFrame]:
    return [frame(spark, *(row for step in steps for row in step[side])) for side in range(2)]


def _weights(rows: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    return {row["id"]: row["weight"] for row in rows if row["id"] >= 0}


def _places(spark: SparkSession, partitions: int) -> Callable[[int], int]:
    """The partition of a user: that of Spark's shuffle."""
    users = spark.range(_USERS).selectExpr("id", f"pmod(hash(id), {partitions}) AS part")
    known: dict[int, int] = {row["id"]: row["part"] for row in users.collect()}
    return lambda user: known[user]


def _shares(spark: SparkSession, seed: int = _SEED) -> dict[int, float]:
    """The number of [0, 1) by which each impression is chosen."""
    share = f"shiftrightunsigned(xxhash64(user, at, {seed}L), 11) * pow(2D, -53) AS share"
    return {row["id"]: row["share"] for row in _tables(spark)[0].selectExpr("id", share).collect()}


class _Oracle:
    """The rates by the rule as the guide has it, from all examples of each release."""

    def __init__(self, ratios: dict[str, float], start: float, over: int = _OVER) -> None:
        self.ratios, self.start, self.over = ratios, start, over
        # By partition: the step of event time, the positives by label, the negatives.
        self.seen: dict[int, list[tuple[float, dict[str, int], int]]] = defaultdict(list)

    def rate(self, part: int) -> float:
        if not self.seen[part]:
            return self.start
        newest = self.seen[part][-1][0]
        window = [one for one in self.seen[part] if one[0] > newest - self.over]
        negatives = max(1, sum(n for _, _, n in window))
        wanted = (ratio * max(1, sum(p[label] for _, p, _ in window)) for label, ratio in self.ratios.items())
        return min(1.0, max(wanted) / negatives)

    def release(self, through: int, rows: list[dict[str, Any]], place: Callable[[int], int]) -> None:
        """Counts the examples of a release, of which left rows up to `through` were emitted."""
        width = self.over / 16
        for part in {place(row["user"]) for row in rows}:
            mine = [row for row in rows if place(row["user"]) == part]
            positives = {label: sum(len(row[label]) > 0 for row in mine) for label in self.ratios}
            negatives = sum(all(len(row[label]) == 0 for label in self.ratios) for row in mine)
            self.seen[part].append((math.floor(through / width) * width, positives, negatives))

    def rescale(self, before: int, after: int) -> None:
        """A new partition has what its sources have seen; copies of one partition's count once."""
        common = math.gcd(before, after)
        seen: dict[int, list[tuple[float, dict[str, int], int]]] = defaultdict(list)
        for target in range(after):
            sources = [self.seen[one] for one in range(target % common, before, common)]
            distinct = sources[:1] if all(one == sources[0] for one in sources) else sources
            seen[target] = sorted((one for source in distinct for one in source), key=lambda one: one[0])
        self.seen = seen


def _check(
    oracle: _Oracle,
    everything: list[dict[str, Any]],
    found: list[dict[str, Any]],
    place: Callable[[int], int],
    shares: dict[int, float],
) -> int:
    """Compares the rows of a release with those that the oracle chooses. Returns the negatives left out."""
    expected = {}
    for row in everything:
        if row["id"] >= 0:
            is_negative = all(len(row[label]) == 0 for label in oracle.ratios)
            rate = oracle.rate(place(row["user"])) if is_negative else 1.0
            if shares[row["id"]] < rate:
                expected[row["id"]] = 1 / rate
    assert _weights(found) == expected
    return sum(1 for row in everything if row["id"] >= 0) - len(expected)


class _Compared:
    """A sampled query, and one with all examples beside it, whose releases the oracle counts."""

    def __init__(self, spark: SparkSession, feed: _Feed, queries: list[StreamQuery], oracle: _Oracle) -> None:
        self._spark = spark
        self._feed = feed
        self.sampled, self._whole = queries
        self.oracle = oracle
        self._shares = _shares(spark)
        self.partitions(2)
        self.left_out: list[int] = []
        self.progress: list[dict[str, Any]] = []

    def partitions(self, number: int) -> None:
        self._place = _places(self._spark, number)

    def run(self, step: tuple[list[Row], list[Row]] | None) -> None:
        """Runs a step, or the end, and starts the sampled query anew."""
        if step is None:
            self._feed.end()
        else:
            self._feed.add(step)
        for query in (self.sampled, self._whole):
            query.run()
        everything = self._whole.new_rows()
        left_out = _check(self.oracle, everything, self.sampled.new_rows(), self._place, self._shares)
        self.left_out.append(left_out)
        newest = _END if step is None else step[0][-1][2]
        self.oracle.release(newest - 1 - _AFTER, everything, self._place)
        self.progress += self.sampled.progresses()
        self.sampled.stop()


@pytest.mark.contract
def test_a_stream_keeps_the_negatives_that_the_rule_says(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    feed = _Feed(stream_test)
    with (
        stream_test.query(_sampled(*feed.frames, start=0.5).stream()) as query,
        stream_test.query(_define(*feed.frames).stream(), "all") as whole,
    ):
        compared = _Compared(spark, feed, [query, whole], _Oracle({"click": 2}, 0.5))
        for step in _STEPS:
            compared.run(step)
            query.restart()
        compared.run(None)
    left_out = compared.left_out
    assert all(left_out), left_out
    metrics = [one["stateOperators"][0]["customMetrics"] for one in compared.progress]
    negatives = sum(one["balancedNegatives"] for one in metrics)
    # Each emitted example is one of the two.
    assert negatives + sum(one["balancedPositives"] for one in metrics) == sum(len(s) for s, _ in _STEPS)
    told = [one["observedMetrics"]["tailrace.examples"]["sample"] for one in compared.progress]
    assert {one["predicate"] for sample in told for one in sample} == {"size(click) = 0"}
    assert sum(one["dropped"] for sample in told for one in sample) == sum(left_out)
    expected = sum(one["balancedNegativesExpected"] for one in metrics)
    assert abs(negatives - sum(left_out) - expected) < 4 * math.sqrt(expected)


@pytest.mark.parametrize(
    "numbers",
    [[1, 4], pytest.param([4], marks=pytest.mark.slow), pytest.param([3], marks=pytest.mark.slow)],
)
def test_a_rescaled_query_goes_on_with_the_counts_of_its_sources(
    spark: SparkSession, stream_test: StreamTest, numbers: list[int]
) -> None:
    feed = _Feed(stream_test)
    with (
        stream_test.query(_sampled(*feed.frames, start=0.5).stream()) as query,
        stream_test.query(_define(*feed.frames).stream(), "all") as whole,
    ):
        compared = _Compared(spark, feed, [query, whole], _Oracle({"click": 2}, 0.5))
        before = 2
        for i, step in enumerate([*_STEPS, None]):
            compared.run(step)
            if i in range(2, 2 + len(numbers)):
                after = numbers[i - 2]
                tailrace.rescale(spark, query.checkpoint, after)
                compared.oracle.rescale(before, after)
                compared.partitions(after)
                before = after
            query.restart()
    # Also after the last of the new numbers.
    assert all(compared.left_out[:6]), compared.left_out


def test_a_restart_changes_nothing(stream_test: StreamTest) -> None:
    feed = _Feed(stream_test)
    made = _sampled(*feed.frames).stream()
    with stream_test.query(made) as stopped, stream_test.query(made, "other") as running:
        for number, step in enumerate(_STEPS):
            feed.add(step)
            for query in (stopped, running):
                query.run()
            if number in (1, 4):
                stopped.restart()
        feed.end()
        for query in (stopped, running):
            query.run()
        kept = _weights(stopped.rows())
        assert kept == _weights(running.rows())
        assert stopped.changes() == []
    assert len(set(kept.values())) > 6
    assert min(kept.values()) == 1


@pytest.mark.slow
def test_a_crash_at_any_step_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def pipeline(root: Path, served: DataFrame, clicked: DataFrame) -> DataStreamWriter:
        frames = [one.withWatermark("at", "1 second") for one in (served, clicked)]
        rows = _sampled(*frames, start=0.5).stream().select("id", "weight")

        def write(batch: DataFrame, number: int) -> None:
            again = sorted(tuple(row) for row in batch.collect())
            file = root / "out" / f"{number}.json"
            file.parent.mkdir(exist_ok=True)
            if file.exists():
                # A sink that has the micro-batch gets the same rows.
                assert json.loads(file.read_text()) == [list(row) for row in again]
            file.write_text(json.dumps(again))

        return rows.writeStream.foreachBatch(write)

    def read(root: Path) -> list[tuple[Any, ...]]:
        return [tuple(row) for file in (root / "out").iterdir() for row in json.loads(file.read_text())]

    batches = [tuple([(id_, user, at(s)) for id_, user, s in side] for side in step) for step in _STEPS[:3]]
    tried = crash_at_every_step(spark, tmp_path, pipeline, [SCHEMA, SCHEMA], batches, read, most=8)
    assert len(tried) == 8


def test_an_interrupted_batch_decides_the_same_after_a_rescale(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    feed = _Feed(stream_test)
    checkpoint, out, fails = (tmp_path / name for name in ("checkpoint", "out", "fails"))
    out.mkdir()

    def write(batch: DataFrame, number: int) -> None:
        rows = sorted(tuple(row) for row in batch.select("id", "weight").collect())
        with (out / f"{number}.json").open("a") as file:
            print(json.dumps(rows), file=file)
        if rows and fails.exists():
            raise RuntimeError("the sink fails behind its rows")

    def run() -> None:
        writer = _sampled(*feed.frames, start=0.5).stream().writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        try:
            stream_test.flush()
            query.processAllAvailable()
        finally:
            query.stop()

    for step in _STEPS[:2]:
        feed.add(step)
        run()
    fails.touch()
    feed.add(_STEPS[2])
    with pytest.raises(StreamingQueryException):
        run()
    fails.unlink()
    with pytest.raises(TailraceStateError, match="TAILRACE_STATE_RESCALE_CUT_OFF"):
        tailrace.rescale(spark, checkpoint, 3)
    tailrace.rescale(spark, checkpoint, 4)
    # Each of the two has the counts of one before.
    tailrace.rescale(spark, checkpoint, 2)
    tailrace.rescale(spark, checkpoint, 8)
    run()
    tried = [file.read_text().splitlines() for file in out.iterdir()]
    (again,) = (lines for lines in tried if len(lines) > 1)
    assert len(set(again)) == 1
    assert {weight for _, weight in json.loads(again[0])} > {1.0}


def test_settings_of_the_ratio_may_change_at_a_restart(spark: SparkSession, stream_test: StreamTest) -> None:
    feed = _Feed(stream_test)
    changes: list[tuple[dict[str, Any], dict[str, float], int]] = [
        ({}, {"click": 2}, _OVER),
        ({"ratio": {"click": 0.5}}, {"click": 0.5}, _OVER),
        ({"over": "80 seconds"}, {"click": 2}, 80),
        ({"ratio": {"Click": 4}, "over": "80 seconds"}, {"click": 4}, 80),
    ]
    with (
        stream_test.query(_sampled(*feed.frames, start=0.5).stream()) as query,
        stream_test.query(_define(*feed.frames).stream(), "all") as whole,
    ):
        compared = _Compared(spark, feed, [query, whole], _Oracle({"click": 2}, 0.5))
        for step, (given, ratios, over) in zip(_STEPS, changes, strict=False):
            query.restart(_sampled(*feed.frames, **({"start": 0.5} | given)).stream())
            compared.oracle.ratios, compared.oracle.over = ratios, over
            compared.run(step)
        # Without the sample nothing is counted, and with it again the counts begin anew.
        query.restart(_define(*feed.frames).stream())
        feed.add(_STEPS[4])
        query.run()
        query.new_rows()
        query.restart(_sampled(*feed.frames, start=0.125).stream())
        feed.add(_STEPS[5])
        query.run()
        assert set(_weights(query.new_rows()).values()) == {1.0, 8.0}
        query.restart(_sampled(*feed.frames, seed=8).stream())
        feed.add(_STEPS[6])
        with pytest.raises(Exception, match="`seed` of the sample was '7' and is now '8'"):
            query.run()


def test_weights_estimate_all_negatives_over_many_seeds(spark: SparkSession) -> None:
    tables = [table.localCheckpoint() for table in _tables(spark)]
    everything = _define(*tables).batch().collect()
    negatives = sum(not row["click"] for row in everything)
    estimates, spreads = [], []
    for seed in range(24):
        rows = [row for row in _sampled(*tables, seed=seed).batch().collect() if not row["click"]]
        estimates.append(sum(row["weight"] for row in rows))
        # Of a row that is kept with probability p, weight / p estimates its part of the variance.
        spreads.append(sum(row["weight"] * (row["weight"] - 1) for row in rows))
    deviation = math.sqrt(sum(spreads)) / len(estimates)
    assert abs(sum(estimates) / len(estimates) - negatives) < 4 * deviation
    assert deviation < negatives / 20


@pytest.mark.parametrize("is_stream", [True, False])
def test_an_example_before_since_is_neither(
    spark: SparkSession, stream_test: StreamTest, *, is_stream: bool
) -> None:
    feed = _Feed(stream_test)

    def define(impressions: DataFrame, clicks: DataFrame) -> tailrace.Examples:
        made = examples(impressions, release_every="batch")
        made = made.label("click", clicks, time="at", after="10 seconds", since=at(_STEP))
        return made.sample(ratio={"click": 1}, seed=_SEED, start=0.25, over=f"{_OVER} seconds")

    if is_stream:
        with stream_test.query(define(*feed.frames).stream()) as query:
            feed.add(_STEPS[0])
            query.run()
            feed.add(_STEPS[1])
            query.run()
            rows = query.rows()
            # Nothing was counted before: the second release has the rate of the first.
            assert {r["weight"] for r in rows if r["click"] is not None} == {1.0, 4.0}
    else:
        rows = [row.asDict() for row in define(*_tables(spark, _STEPS[:2])).batch().collect()]
    unknown = [row for row in rows if row["click"] is None]
    assert len(unknown) == len(_STEPS[0][0])
    assert {row["weight"] for row in unknown} == {1.0}


def _define_two(impressions: DataFrame, events: DataFrame) -> tailrace.Examples:
    made = examples(impressions, release_every="batch")
    made = made.label("click", events, time="at", after=f"{_AFTER} seconds", where="id % 2 = 0")
    return made.label("buy", events, time="at", after=f"{_AFTER} seconds", where="id % 3 = 0")


def test_of_several_labels_the_greatest_rate_counts(spark: SparkSession, stream_test: StreamTest) -> None:
    feed = _Feed(stream_test)
    options: dict[str, Any] = {"ratio": {"buy": 4, "click": 2}, "over": f"{_OVER} seconds", "seed": _SEED}
    with (
        stream_test.query(_define_two(*feed.frames).sample(**options).stream()) as query,
        stream_test.query(_define_two(*feed.frames).stream(), "all") as whole,
    ):
        compared = _Compared(spark, feed, [query, whole], _Oracle(options["ratio"], 1.0))
        for step in _STEPS[:4]:
            compared.run(step)
            query.restart()
    assert sum(compared.left_out) > 0
    metrics = [one["stateOperators"][0]["customMetrics"] for one in compared.progress]
    # An example with an event of both is one positive.
    positives, negatives, emitted = (
        sum(one[name] for one in metrics)
        for name in ("balancedPositives", "balancedNegatives", "groupsEmitted")
    )
    assert positives > 0
    assert positives + negatives == emitted


def test_counts_begin_anew_with_other_labels_and_not_in_another_order(
    spark: SparkSession, stream_test: StreamTest
) -> None:
    feed = _Feed(stream_test)

    def sampled(ratio: dict[str, float]) -> DataFrame:
        return _define_two(*feed.frames).sample(ratio=ratio, start=0.5, over="1 hour", seed=_SEED).stream()

    changes: list[tuple[dict[str, float], bool]] = [
        ({"click": 2}, False),
        ({"buy": 1}, True),
        ({"buy": 1}, False),
        ({"click": 1, "buy": 2}, True),
        ({"buy": 2, "click": 1}, False),
        ({"click": 1, "buy": 2}, False),
    ]
    with (
        stream_test.query(sampled(changes[0][0])) as query,
        stream_test.query(_define_two(*feed.frames).stream(), "all") as whole,
    ):
        compared = _Compared(spark, feed, [query, whole], _Oracle(changes[0][0], 0.5, 3600))
        for step, (ratio, is_new) in zip(_STEPS, changes, strict=False):
            query.restart(sampled(ratio))
            if is_new:
                compared.oracle = _Oracle(ratio, 0.5, 3600)
            compared.run(step)
    assert all(compared.left_out[1:]), compared.left_out


def test_marked_rows_are_not_sampled_and_not_counted(stream_test: StreamTest) -> None:
    feed = _Feed(stream_test)
    made = examples(feed.frames[0], release_every="batch", on_late="mark")
    made = made.label("click", feed.frames[1], time="at", after="10 seconds")
    with stream_test.query(made.sample(ratio={"click": 1}, seed=1, start=0.001).stream()) as query:
        feed.add(_STEPS[3])
        query.run()
        # Behind the end of its window.
        feed.add([[(-5, 3, 0)], []])
        query.run()
        marked = [row for row in query.rows() if row["_mark"] is not None]
        # The click of nobody is late, too.
        assert {(row["_mark"], row["id"], row["weight"]) for row in marked} == {
            ("late_left", -5, None),
            ("late_right", None, None),
        }
        emitted = query.total("balancedPositives") + query.total("balancedNegatives")
        assert emitted == query.total("groupsEmitted")


def test_an_example_without_an_excluded_stream_is_sampled_and_not_counted(stream_test: StreamTest) -> None:
    sources = [stream_test.source(SCHEMA) for _ in range(3)]
    served, clicked = sources[:2]
    frames = [source.frame.withWatermark("at", "1 second") for source in sources]
    made = (
        examples(frames[0], release_every="batch")
        .label("click", frames[1], time="at", after="9 seconds")
        .label("buy", frames[2], time="at", after="9 seconds", on_stall="exclude", stall_after="1 second")
        .sample(ratio={"click": 1}, seed=1, start=0.5, over="1 hour")
    )
    with stream_test.query(made.stream()) as query:
        for source in sources:
            source.add((1, 7, at(0)))
        query.run()
        for step in range(10, 100):
            served.add(*((1000 * user + step, user, at(step)) for user in range(20)))
            clicked.add((step, 0, at(step)))
            query.run()
            if len(query.rows()) > 60:
                break
        rows = query.rows()
        assert {row["_mark"] for row in rows} == {"excluded"}
        # Each has the rate `start`: no release without the stream counts for the next one.
        assert {(len(row["click"]) > 0, row["weight"]) for row in rows} == {(True, 1.0), (False, 2.0)}
        assert query.total("balancedPositives") + query.total("balancedNegatives") == 0


def test_an_erasure_keeps_the_counts(spark: SparkSession, stream_test: StreamTest) -> None:
    feed = _Feed(stream_test)
    made = _sampled(*feed.frames, start=0.5)
    with stream_test.query(made.stream()) as query:
        for step in _STEPS[:2]:
            feed.add(step)
            query.run()
        assert not set(_weights(query.new_rows()).values()) <= {1.0, 2.0}
        query.stop()
        tailrace.erase(spark, query.checkpoint, "user = 5")
        query.restart()
        feed.add(_STEPS[2])
        query.run()
        # The counts of a state whose rows were erased stay: they name nobody.
        assert not set(_weights(query.new_rows()).values()) <= {1.0, 2.0}


def test_an_import_begins_with_the_counts_of_all_partitions(
    spark: SparkSession, stream_test: StreamTest, tmp_path: Path
) -> None:
    feed = _Feed(stream_test)
    made = _sampled(*feed.frames, start=0.5).stream()
    with stream_test.query(made) as query, stream_test.query(_define(*feed.frames).stream(), "all") as whole:
        oracle = _Oracle({"click": 2}, 0.5)
        for step in _STEPS[:2]:
            feed.add(step)
            for one in (query, whole):
                one.run()
            oracle.release(step[0][-1][2] - 1 - _AFTER, whole.new_rows(), lambda _: 0)
        query.stop()
        tailrace.export_state(spark, query.checkpoint, tmp_path / "export")
        described = (tmp_path / "export" / "_tailrace_export.json").read_text()
        (operator,) = json.loads(described.splitlines()[1])["operators"]
        steps = operator["state"]["balance"]["steps"]
        seen = oracle.seen[0]
        assert [(one["positives"], one["negatives"]) for one in steps] == [
            ([p["click"]], n) for _, p, n in seen
        ]
        query.new_rows()
        imported = tmp_path / "import"
        tailrace.import_state(made, imported, export=tmp_path / "export")
        query.checkpoint.rename(tmp_path / "old")
        imported.rename(query.checkpoint)
        query.restart()
        oracle.seen[1] = list(seen)
        feed.add(_STEPS[2])
        for one in (query, whole):
            one.run()
        _check(oracle, whole.new_rows(), query.new_rows(), _places(spark, 2), _shares(spark))
