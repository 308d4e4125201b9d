from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from tailrace._bridge import failures
from tailrace._installation import versions
from tailrace._version import __version__
from tailrace.errors import (
    TailraceError,
    TailraceJoinError,
    TailraceMemoryError,
    TailraceRecursionError,
    TailraceReplayError,
    TailraceServerError,
    TailraceSessionError,
    TailraceStateError,
    TailraceTableError,
    TailraceVersionError,
    TailraceWatermarkError,
    from_condition,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CONDITIONS = "jvm/src/main/resources/error/tailrace-error-conditions.json"


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("TAILRACE_SESSION_EXTENSION_MISSING", TailraceSessionError),
        ("TAILRACE_SPARK_VERSION_MISMATCH", TailraceVersionError),
        ("TAILRACE_CONF_INVALID", TailraceSessionError),
        ("TAILRACE_MEMORY_EXHAUSTED", TailraceMemoryError),
        ("TAILRACE_JOIN_WATERMARK_MISSING", TailraceJoinError),
        ("TAILRACE_OUTPUT_MODE_UNSUPPORTED", TailraceJoinError),
        ("TAILRACE_STATE_FILE_CORRUPT", TailraceStateError),
        ("TAILRACE_CHECKPOINT_INCOMPATIBLE", TailraceStateError),
        ("TAILRACE_SERVER_TOKEN_MISSING", TailraceServerError),
        ("TAILRACE_OF_A_LATER_RELEASE", TailraceError),
    ],
)
def test_a_condition_gives_its_class(condition: str, kind: type[TailraceError]) -> None:
    error = from_condition(condition, "text", {"side": "left"})
    assert type(error) is kind
    assert (error.condition, error.parameters, str(error)) == (
        condition,
        {"side": "left"},
        f"[{condition}] text",
    )


CALLS = {
    "join": TailraceJoinError,
    "sync_join": TailraceJoinError,
    "filter_replays": TailraceReplayError,
    "accurate_watermark": TailraceWatermarkError,
    "stamped_watermark": TailraceWatermarkError,
    "stamp_watermark": TailraceWatermarkError,
    "write_windows": TailraceWatermarkError,
    "write_table": TailraceTableError,
    "recursively": TailraceRecursionError,
}


def test_every_condition_of_the_jar_has_a_class_of_its_own(repository: Path) -> None:
    conditions = json.loads((repository / CONDITIONS).read_text())
    assert conditions
    # An error that any call may end with has the class of the call.
    given = {"call": "tailrace.join"}
    assert [name for name in conditions if type(from_condition(name, "", given)) is TailraceError] == []
    for call, kind in CALLS.items():
        assert callable(getattr(tailrace, call))
        # If Spark has lost the parameters, the text names the call.
        error = from_condition("TAILRACE_OPTION_INVALID", f"`name` of tailrace.{call} is 'a b'.")
        assert type(error) is kind, call


def test_the_text_is_one_line_without_the_jvm() -> None:
    refusal = "[TAILRACE_JOIN_KEYS_MISSING] The join has no key columns.\nName one."
    text = f"{refusal}\n\nJVM stacktrace:\nio.x\n\tat y"
    assert failures.said(text) == ("TAILRACE_JOIN_KEYS_MISSING", "The join has no key columns. Name one.")


def test_the_error_inside_a_failed_query_is_found() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception: Job aborted: Lost task 0.0 in stage 1.0 (TID 1): "
        "io.tailrace.common.TailraceStateException: [TAILRACE_STATE_FILE_MISSING] The state file f is gone.\n"
        "Restore it.\n\tat io.tailrace.state.X(X.scala:1)\n\nDriver stacktrace:"
    )
    assert failures.said(text) == ("TAILRACE_STATE_FILE_MISSING", "The state file f is gone. Restore it.")


def test_what_spark_says_of_the_query_is_no_part_of_the_error() -> None:
    text = "[STREAM_FAILED] Query terminated with exception: [TAILRACE_X] It is.\nDo y. SQLSTATE: XXKST"
    told = failures.said(
        f"{text}\n=== Streaming Query ===\nIdentifier: [id = 7]\nCurrent Committed Offsets: {{}}"
    )
    assert told == ("TAILRACE_X", "It is. Do y. SQLSTATE: XXKST")


def test_the_error_of_a_batch_job_is_told_once() -> None:
    text = "[TAILRACE_STATE_FILE_MISSING] The state file f is gone."
    twice = f"An error occurred.\n: {text}: io.tailrace.common.TailraceStateException: {text}\n\tat io.x"
    assert failures.said(twice) == ("TAILRACE_STATE_FILE_MISSING", "The state file f is gone.")


def test_an_error_says_its_text_by_sparks_method_too(spark: SparkSession) -> None:
    """Where it has a place in the user's query, PySpark itself calls that."""
    with pytest.raises(TailraceReplayError, match="TAILRACE_FUNCTION_ARGUMENTS") as refusal:
        spark.sql("SELECT stream_metadata(7L)").collect()
    error: Any = refusal.value
    assert error.getMessage() == str(error)


def test_an_error_of_sparks_own_is_none() -> None:
    assert failures.said("[TABLE_OR_VIEW_NOT_FOUND] x") is None
    assert failures.said("no condition at all") is None


def test_a_refusal_of_the_jvm_is_one_short_exception(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS user, timestamp_micros(0) AS at")
    with pytest.raises(TailraceJoinError) as refusal:
        tailrace.join(frame, frame, on="item", left_time="at", right_time="at", after="1 minute")
    error = refusal.value
    assert error.condition == "TAILRACE_COLUMN_NOT_FOUND"
    assert error.parameters["column"] == "item"
    shown = "".join(traceback.format_exception(error))
    assert "py4j" not in shown.lower()
    assert "JVM stacktrace" not in shown


FITTING = {
    "tailrace": __version__,
    "spark": "4.2.1",
    "builtForSpark": "4.2.0",
    "scala": "2.13.18",
    "java": "17.0.15",
}


def test_fitting_versions_pass() -> None:
    versions.check_versions(FITTING, "4.2.0")


def test_a_mismatch_with_a_server_has_a_cure_for_the_client() -> None:
    with pytest.raises(TailraceVersionError, match=r"install pyspark 4\.2 here, or ask for") as refusal:
        versions.check_versions(FITTING, "4.1.1", remote=True)
    assert "SPARK_HOME" not in str(refusal.value)


@pytest.mark.parametrize(
    ("found", "pyspark", "says"),
    [
        ({"tailrace": "0.0.1"}, "4.2.0", "the jar that Spark loaded is tailrace 0.0.1"),
        ({"spark": "4.1.0"}, "4.1.0", "for Spark 4.2 and the session runs Spark 4.1.0"),
        ({"spark": "4.3.0"}, "4.3.0", f"start Spark with tailrace-spark4.3_2.13-{__version__}.jar instead"),
        ({}, "4.1.1", "pyspark 4.1.1 and the JVM runs Spark 4.2.1"),
        ({}, "4.1.1", "unset SPARK_HOME, or install pyspark 4.2."),
        ({"scala": "2.12.20"}, "4.2.0", "is built for Scala 2.13 and the session runs Scala 2.12.20"),
        ({"java": "1.8.0_392"}, "4.2.0", "runs on Java 1.8.0_392 and tailrace needs Java 17"),
    ],
)
def test_a_mismatch_is_one_sentence(found: dict[str, str], pyspark: str, says: str) -> None:
    with pytest.raises(TailraceVersionError, match=r"^[^\n]*$") as refusal:
        versions.check_versions({**FITTING, **found}, pyspark)
    assert says in str(refusal.value)
