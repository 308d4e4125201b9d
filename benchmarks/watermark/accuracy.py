"""Compares windows that streams have closed with a batch count of the same logs: the accuracy of watermarks.

    python benchmarks/watermark/accuracy.py --hosts 10000 --rows-per-window 50

Logs of many hosts are made (`simulated_logs.py`) in which no host is delayed, at most 0.1 % of them, or 5 %
for twenty minutes, and a real query of Spark counts them by windows of five minutes, a file a micro-batch:
with `tailrace.accurate_watermark` at 99.9 %, and with Spark's `withWatermark` at the least delay that meets
the bars in all three. What Flink's rule gives on the same logs is computed (`closing_rules.py`); the same
file computes the other two as well, and the streams must agree with it to the row. Prints the table and
writes it to benchmarks/results/NAME.txt.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from closing_rules import (
    Closing,
    close,
    flink_rule,
    least_delay,
    lost,
    spark_rule,
    tailrace_rule,
    truth,
)
from simulated_logs import (
    EPOCH,
    FIRST_OUTAGE,
    MINUTE,
    OUTAGE,
    RACK,
    STEP,
    WINDOW,
    Logs,
    few_outages,
    generate,
    many_outages,
    no_outages,
    write,
)

import report
import session
import tailrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from simulated_logs import Longs

_COMPLETENESS = "99.9%"
_LAGGING = 1_000  # one host of so many may lag
_IDLE_AFTER = MINUTE
_SCENARIOS = {
    "no host delayed": (no_outages, 1e-5),
    "up to 0.1 % delayed": (few_outages, 1e-3),
    "5 % delayed": (many_outages, 1.2e-3),
}


@dataclass(frozen=True)
class Scenario:
    """Logs, what they really hold, and what may be lost of it."""

    name: str
    logs: Logs
    whole: Longs
    bar: float


def stream(marked: DataFrame, checkpoint: Path, windows: int) -> Closing:
    """Runs the query to the end of the logs and says in which micro-batch each window has come out."""
    rows, step = np.zeros(windows, np.int64), np.full(windows, -1)

    def take(out: DataFrame, batch: int) -> None:
        for window in out.collect():
            if window.n < windows:
                if step[window.n] >= 0:
                    raise RuntimeError(f"window {window.n} has come out twice")
                rows[window.n], step[window.n] = window.rows, batch

    counts = _counts(marked)
    writer = counts.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return Closing(rows, step)


def _counts(logs: DataFrame) -> DataFrame:
    window = F.window("event_time", f"{WINDOW // MINUTE} minutes")
    counts = logs.groupBy(window).agg(F.count("*").alias("rows"))
    number = (F.unix_micros("window.start") - EPOCH) / WINDOW
    return counts.select(number.cast("long").alias("n"), "rows")


def batch_count(spark: SparkSession, path: Path, windows: int) -> Longs:
    """The offline truth: the same query as a batch over all files."""
    found = np.zeros(windows, np.int64)
    for row in _counts(spark.read.parquet(str(path))).collect():
        if row.n < windows:
            found[row.n] = row.rows
    return found


def _check(what: str, found: Closing, expected: Closing) -> None:
    if (found.rows != expected.rows).any() or (found.step != expected.step).any():
        raise RuntimeError(f"{what}: the streams have {found}, and the rule gives {expected}")


def _line(rule: str, scenario: Scenario, closing: Closing) -> str:
    closed = closing.step >= 0
    missing = scenario.whole - closing.rows
    worst = (missing / scenario.whole).max()
    minutes = closing.lags() / MINUTE
    share = lost(closing, scenario.whole)
    lags = f"{np.median(minutes):11.1f}{minutes.max():9.1f}" if len(minutes) else f"{'-':>11}{'-':>9}"
    return (
        f"{scenario.name:21}{rule:35}{share * 1e5:11.1f}{worst * 1e5:12.1f}{lags}"
        f"{int(closed.sum()):7}   {'yes' if closed.all() and share <= scenario.bar else 'no'}"
    )


def _outage(scenario: Scenario, closing: Closing) -> str:
    """What the windows did while hosts were delayed."""
    end = FIRST_OUTAGE + OUTAGE
    ends = (np.arange(len(closing.step)) + 1) * WINDOW
    inside = (ends > FIRST_OUTAGE) & (ends <= end)
    during = ((closing.step + 1) * STEP <= end) & inside & (closing.step >= 0)
    late = closing.step[inside].min() + 1 - end // STEP
    return (
        f"while 5 % of the hosts were delayed, {during.sum()} of the {inside.sum()} windows that ended in it "
        f"have closed by tailrace; the others closed from {late} minutes after its end on, with "
        f"{(1 - closing.rows[inside].sum() / scenario.whole[inside].sum()) * 1e3:.2f} in 1,000 rows lost"
    )


def _scenarios(a: argparse.Namespace) -> list[Scenario]:
    found = []
    for number, (name, (outages, bar)) in enumerate(_SCENARIOS.items()):
        rng = np.random.default_rng([a.seed, number])
        logs = generate(a.hosts, a.rows_per_window, outages(a.hosts, rng), rng)
        found.append(Scenario(name, logs, truth(logs), bar))
    return found


def _compare(a: argparse.Namespace) -> tuple[list[str], bool]:
    scenarios = _scenarios(a)
    allowed = a.hosts // _LAGGING

    def spark_at(logs: Logs, seconds: int) -> Closing:
        return close(logs, spark_rule(logs, seconds * 1_000_000), steps_later=1)

    def flink_at(logs: Logs, seconds: int, idle_after: int | None) -> Closing:
        return close(logs, flink_rule(logs, seconds * 1_000_000, idle_after), steps_later=0)

    def best(rule: Callable[[Logs, int], Closing], chosen: list[Scenario]) -> int:
        return least_delay([s.logs for s in chosen], [s.bar for s in chosen], rule)

    idle = partial(flink_at, idle_after=_IDLE_AFTER)
    waiting = partial(flink_at, idle_after=None)
    delay = best(spark_at, scenarios)
    calm = {"spark": best(spark_at, scenarios[:1]), "flink": best(idle, scenarios[:1])}
    others: dict[str, Callable[[Logs], Closing]] = {
        f"Spark, {calm['spark']} s, computed": partial(spark_at, seconds=calm["spark"]),
        f"Flink, {calm['flink']} s, idle 1 min, computed": partial(idle, seconds=calm["flink"]),
        f"Flink, {calm['flink']} s, never idle, computed": partial(waiting, seconds=calm["flink"]),
        f"Flink, {best(idle, scenarios)} s, idle 1 min, computed": partial(
            idle, seconds=best(idle, scenarios)
        ),
    }
    spark = session.local("2g")
    lines = [
        f"{'':56}{'lost in 100,000 rows':>23}{'lag at closing, min':>20}",
        f"{'logs':21}{'rule':35}{'all':>11}{'worst win.':>12}{'median':>11}{'max':>9}{'closed':>7}   bar met",
    ]
    notes = [
        f"Spark, {delay} s, and Flink's last: the least delay with which all three logs meet their bars",
        "the others of Spark and Flink: the least delay with which the first does",
    ]
    met = True
    with tempfile.TemporaryDirectory() as name:
        for number, scenario in enumerate(scenarios):
            path = Path(name) / f"logs-{number}"
            hosts = write(scenario.logs, path)
            windows = scenario.logs.windows
            if (batch_count(spark, path, windows) != scenario.whole).any():
                raise RuntimeError("the batch count isn't what was written")
            reader = spark.readStream.schema("event_time timestamp, hostname string")
            files = reader.option("maxFilesPerTrigger", 1).parquet(str(path))
            accurate = stream(
                tailrace.accurate_watermark(
                    files, "event_time", host="hostname", completeness=_COMPLETENESS, hosts=hosts
                ),
                Path(name) / f"tailrace-{number}",
                windows,
            )
            expected = close(scenario.logs, tailrace_rule(scenario.logs, allowed), steps_later=1)
            _check(f"tailrace, {scenario.name}", accurate, expected)
            plain = stream(
                files.withWatermark("event_time", f"{delay} seconds"), Path(name) / f"spark-{number}", windows
            )
            _check(f"Spark, {scenario.name}", plain, spark_at(scenario.logs, delay))
            lines.append(_line(f"tailrace, {_COMPLETENESS}", scenario, accurate))
            lines.append(_line(f"Spark, {delay} s", scenario, plain))
            lines += [_line(rule, scenario, of(scenario.logs)) for rule, of in others.items()]
            closed = bool((accurate.step >= 0).all())
            met &= closed and lost(accurate, scenario.whole) <= scenario.bar
            if scenario is scenarios[-1]:
                notes.append(_outage(scenario, accurate))
            print("\n".join(lines[-2 - len(others) :]), flush=True)
    spark.stop()
    return [*lines, "", *notes], met


def main() -> int:
    """Compares, and says whether the bars are met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=10_000, help="a multiple of 1,000")
    parser.add_argument("--rows-per-window", type=int, default=50, help="of a host, on average")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--name", default="watermark-accuracy")
    a = parser.parse_args()
    if a.hosts <= 0 or a.hosts % _LAGGING:
        parser.error("--hosts must be a multiple of 1,000")
    header = report.heading(
        f"{a.hosts} hosts, {a.rows_per_window} rows of a host in a window of "
        f"{WINDOW // MINUTE} minutes on average, a micro-batch a minute, {RACK} hosts a partition, seed "
        f"{a.seed}"
    )
    lines, met = _compare(a)
    bars = "at most 1 in 100,000 rows lost, 1 in 1,000, and 1.2 in 1,000, all windows closed"
    verdict = f"bars: {bars}: {'met' if met else 'NOT met'} by tailrace"
    report.save(a.name, [*header, "", *lines, verdict])
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
