"""A query that Tailrace ends while it runs: what the user's own calls of Spark raise."""

from __future__ import annotations

import importlib
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    PySparkException,
    StreamingQueryException,
)
from pyspark.errors.exceptions import captured
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.streaming.query import StreamingQuery

import tailrace
from modes import CONNECT
from tailrace import TailraceError, TailraceJoinError, TailraceRecursionError
from tailrace._bridge import jvm_failures
from trees import Trees

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

TOO_DEEP = "TAILRACE_RECURSION_TOO_DEEP"
# PySpark's classes of the session's errors.
RAISED: Any = importlib.import_module(f"pyspark.errors.exceptions.{'connect' if CONNECT else 'captured'}")


def too_deep(frame: DataFrame) -> DataFrame:
    return tailrace.recursively(
        frame, lambda u: u.where("node > 0").withColumn("node", F.col("node") - 1), max_depth=2
    )


@pytest.fixture
def failing(spark: SparkSession, tmp_path: Path) -> Callable[[], StreamingQuery]:
    """Starts a query that ends at its first batch, on the same checkpoint each time."""
    trees = Trees(spark, tmp_path)
    trees.add("nodes", [(5, 0)])
    writer = too_deep(trees.stream("nodes")).writeStream.format("noop")
    return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start


def check(error: BaseException | None, depth: str | None = "2") -> None:
    assert isinstance(error, TailraceRecursionError)
    assert error.condition == TOO_DEEP
    assert error.parameters.get("depth") == depth
    text = str(error)
    assert text.startswith(f"[{TOO_DEEP}] ")
    assert "max_depth" in text, "the cure names the argument"
    assert "\n" not in text


def test_await_termination_raises_it_at_each_start(failing: Callable[[], StreamingQuery]) -> None:
    for _ in range(2):
        query = failing()
        with pytest.raises(TailraceError) as caught:
            query.awaitTermination()
        check(caught.value)
        with pytest.raises(TailraceError) as caught:
            query.awaitTermination(timeout=1)
        check(caught.value)


@pytest.mark.contract
def test_process_all_available_raises_it(failing: Callable[[], StreamingQuery]) -> None:
    query = failing()
    with pytest.raises(TailraceError) as caught:
        query.processAllAvailable()
    check(caught.value)


def test_exception_returns_it(failing: Callable[[], StreamingQuery]) -> None:
    query = failing()
    with pytest.raises(TailraceError):
        query.awaitTermination()
    # Over Spark Connect a query that has ended has a text.
    check(query.exception(), depth=None if CONNECT else "2")
    assert isinstance(query.exception(), StreamingQueryException)


def test_await_any_termination_raises_it(spark: SparkSession, failing: Callable[[], StreamingQuery]) -> None:
    spark.streams.resetTerminated()
    failing()
    with pytest.raises(TailraceError) as caught:
        spark.streams.awaitAnyTermination()
    check(caught.value)
    spark.streams.resetTerminated()


def test_it_is_still_sparks_exception(failing: Callable[[], StreamingQuery]) -> None:
    with pytest.raises(StreamingQueryException) as caught:
        failing().awaitTermination()
    error = caught.value
    check(error)
    assert isinstance(error, RAISED.StreamingQueryException)
    assert error.getCondition() == "STREAM_FAILED", "what Spark says of it, too"
    assert (error.getMessageParameters() or {})["id"]


@pytest.mark.filterwarnings("ignore:toPandas attempted Arrow")
def test_a_batch_action_raises_it(spark: SparkSession) -> None:
    deep = too_deep(spark.range(5, 6).selectExpr("id AS node"))
    for action in (deep.collect, deep.count, deep.toPandas, deep.write.format("noop").mode("append").save):
        with pytest.raises(TailraceError) as caught:
            action()
        check(caught.value)
        assert isinstance(caught.value, Py4JJavaError | PySparkException)


@pytest.mark.classic("a client has no py4j, whose errors these are")
def test_code_that_catches_py4js_error_goes_on_catching_it(spark: SparkSession) -> None:
    deep = too_deep(spark.range(5, 6).selectExpr("id AS node"))
    with pytest.raises(Py4JJavaError) as caught:
        deep.collect()
    check(caught.value)
    assert caught.value.java_exception.getClass().getName().startswith("io.tailrace.")


def test_a_refusal_of_start_is_raised_as_both(spark: SparkSession) -> None:
    rate = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    joined = tailrace.join(
        rate, rate, on="value", left_time="timestamp", right_time="timestamp", after="1 minute"
    )
    with pytest.raises(TailraceJoinError) as caught:
        joined.writeStream.format("noop").outputMode("update").start()
    assert isinstance(caught.value, AnalysisException)
    assert caught.value.condition == "TAILRACE_OUTPUT_MODE_UNSUPPORTED"
    assert caught.value.parameters == {"operator": "tailrace.join", "mode": "Update"}


def test_a_failure_in_foreach_batch_ends_the_query_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    trees = Trees(spark, tmp_path)
    trees.add("nodes", [(5, 0)])
    seen = tmp_path / "seen"

    def deep(batch: DataFrame, _: int) -> None:
        try:
            too_deep(batch).collect()
        except TailraceError as error:
            # Over Spark Connect this runs in another process.
            seen.write_bytes(pickle.dumps(error))
            raise

    query = trees.stream("nodes").writeStream.foreachBatch(deep).start()
    with pytest.raises(TailraceError) as caught:
        query.awaitTermination()
    check(pickle.loads(seen.read_bytes()))  # noqa: S301  our own bytes
    # Spark has the text of the error in the user's function only.
    check(caught.value, depth=None)
    check(query.exception(), depth=None)
    assert isinstance(caught.value, StreamingQueryException)


def test_other_failures_are_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    trees = Trees(spark, tmp_path)
    trees.add("nodes", [(5, 0)])
    query = trees.start(trees.stream("nodes").where("raise_error('mine') IS NULL"))
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination()
    assert type(failed.value) is RAISED.StreamingQueryException
    assert type(query.exception()) is RAISED.StreamingQueryException
    with pytest.raises(AnalysisException) as refused:
        spark.table("nowhere").collect()
    assert type(refused.value) is RAISED.AnalysisException
    with pytest.raises(IllegalArgumentException) as wrong:
        spark.range(1).repartition(1).sample(-2.0).count()
    assert type(wrong.value) is RAISED.IllegalArgumentException


@pytest.mark.classic("a client has no py4j, whose errors these are")
def test_py4js_errors_are_as_they_were(spark: SparkSession) -> None:
    with pytest.raises(Py4JJavaError) as java:
        spark._sc._jsc.textFile("/nowhere/at/all").count()
    assert type(java.value) is Py4JJavaError


def test_a_query_that_goes_on_has_no_exception(spark: SparkSession) -> None:
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        assert query.exception() is None
    finally:
        query.stop()


def test_installed_twice_is_installed_once() -> None:
    convert, exception = captured.convert_exception, StreamingQuery.exception
    jvm_failures.install()
    assert captured.convert_exception is convert
    assert StreamingQuery.exception is exception


def test_importing_the_package_leaves_pyspark_alone(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    code = """
import tailrace
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession
print(captured.convert_exception.__module__)
tailrace.configure(SparkSession.builder)
print(captured.convert_exception.__module__)
"""
    done = run_python("-c", code)
    assert done.stdout.split() == ["pyspark.errors.exceptions.captured", "tailrace._bridge.jvm_failures"], (
        done
    )


def test_it_goes_from_process_to_process_as_the_plain_error(failing: Callable[[], StreamingQuery]) -> None:
    with pytest.raises(TailraceError) as caught:
        failing().awaitTermination()
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  our own bytes
    assert type(copied) is TailraceRecursionError
    check(copied)
