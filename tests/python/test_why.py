"""`tailrace why`: the command against a checkpoint of a real query. `WhySuite` has each join."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import tailrace
from streams import Row, Streams, at
from tailrace.commands import waiting
from tailrace.errors import TailraceError, TailraceStateError
from tailrace.testing import StreamTest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def checkpoint(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with StreamTest(spark, tmp_path_factory.mktemp("waiting"), "12:00") as test:
        streams = Streams(test)
        query = streams.query(streams.join(release_every="batch"))
        streams.add([Row(1, 7, 0), Row(2, 8, 5), Row(3, None, 6)], [Row(1, 7, 12), Row(2, 9, 12)])
        query.run()
    return query.checkpoint


def test_the_command_for_people(run_python: RunPython, checkpoint: Path) -> None:
    done = run_python("-m", "tailrace", "why", str(checkpoint))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"checkpoint  {checkpoint}"
    assert re.fullmatch(r"batch       \d, which began at 2026-01-01T12:00:\S+Z", lines[1])
    assert lines[3] == "The watermark is 2026-01-01T11:59:56Z."
    assert lines[4].startswith(
        "Supposedly the left side holds it: the newest left row is of 2026-01-01T12:00:06Z"
    )
    assert "operator 0, tailraceLabelJoin" in lines
    assert "  3 left rows and 2 right rows are in the state." in lines
    missing = "it is 2026-01-01T11:59:56Z, and 34 s of event time are missing."
    assert any(line.endswith(f"the watermark has reached 2026-01-01T12:00:30Z: {missing}") for line in lines)
    rows = [re.split(r"  +", line.strip()) for line in lines[-3:]]
    assert [(row[0], row[1], row[2], row[4], row[5:]) for row in rows] == [
        ("left", "key=7", "2026-01-01T12:00:00Z", "2026-01-01T12:00:30Z", ["1"]),
        ("left", "key=8", "2026-01-01T12:00:05Z", "2026-01-01T12:00:35Z", ["0"]),
        ("left", "null", "2026-01-01T12:00:06Z", "2026-01-01T12:00:36Z", []),
    ]
    # The rows may be there before the query looks for the first time, or after.
    batches = {row[3] for row in rows}
    assert len(batches) == 1
    assert batches <= {f"batch {number} (2026-01-01T12:00:00Z)" for number in (0, 1)}


@pytest.mark.campaign
def test_the_command_for_machines(run_python: RunPython, checkpoint: Path) -> None:
    done = run_python("-m", "tailrace", "why", str(checkpoint), "--key", "key=7", "--rows", "1", "--json")
    found = json.loads(done.stdout)
    assert found == waiting.explain(str(checkpoint), "key=7", 1)
    (operator,) = found["operators"]
    assert found["key"] == "key=7"
    assert operator["more"] == 1
    (row,) = operator["rows"]
    assert (row["side"], row["key"], row["matches"]) == ("left", {"key": "7"}, 1)
    assert row["since"]["batch"] in (0, 1)


@pytest.mark.slow
def test_more_rows_of_a_key_than_are_shown(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting.show(waiting.explain(str(checkpoint), "key=7", 1), as_json=False)
    assert "  and 1 more rows of this key: --rows shows more" in capsys.readouterr().out


@pytest.mark.slow
def test_refusals(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(TailraceStateError) as refusal:
        waiting.explain(str(tmp_path / "gone"))
    assert refusal.value.condition == "TAILRACE_CHECKPOINT_NOT_FOUND"
    assert not (tmp_path / "gone").exists()
    with pytest.raises(TailraceError, match=r"'key=x'. It has to be a value of the type BIGINT for key"):
        waiting.explain(str(checkpoint), "key=x")


@pytest.mark.slow
def test_a_refusal_is_one_line_and_exit_code_1(run_python: RunPython, checkpoint: Path) -> None:
    done = run_python("-m", "tailrace", "why", str(checkpoint), "--key", "user_id=7")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(
        r"tailrace: \[TAILRACE_OPTION_INVALID\] `--key` of tailrace why [^\n]+\n", done.stderr
    )


@pytest.mark.slow
def test_a_key_is_asked_of_each_join_that_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    with StreamTest(spark, tmp_path, "12:00") as test:
        sides = [
            test.source(f"user long, {more}, at timestamp") for more in ("item long", "item long", "age int")
        ]
        served, clicked, known = (side.frame.withWatermark("at", "10 seconds") for side in sides)
        examples = tailrace.examples(served, on=["user", "item"], time="at")
        examples = examples.label("click", clicked, time="at", after="30 seconds")
        query = test.query(examples.features("profile", known, time="at", on="user").stream())
        for side, values in zip(sides, [(7, 1), (7, 1), (7, 33)], strict=True):
            side.add((*values, at(5)), (8, values[1], at(6)))
        query.run()

    def keys_of(asked: str) -> dict[str, list[dict[str, str]]]:
        found = waiting.explain(str(query.checkpoint), asked)["operators"]
        return {one["name"]: [row["key"] for row in one["rows"]] for one in found}

    both = {"user": "7", "item": "1"}
    assert keys_of("user=7,item=1") == {"tailraceAsOf": [{"user": "7"}], "tailraceLabelJoin": [both, both]}
    assert keys_of("item=1,user=7") == keys_of("user=7,item=1")
    assert keys_of("user=7") == {"tailraceAsOf": [{"user": "7"}], "tailraceLabelJoin": []}
    texts = {
        one["name"]: one["text"] for one in waiting.explain(str(query.checkpoint), "user=7")["operators"]
    }
    assert texts["tailraceLabelJoin"] == ["For its rows, name its whole key: --key user=...,item=..."]
    for asked in ("item=1", "user=7,item=1,age=3", "user=7,user=7"):
        with pytest.raises(
            TailraceError, match=r"user=\.\.\. or user=\.\.\.,item=\.\.\.|type BIGINT for item"
        ):
            keys_of(asked)


@pytest.mark.parametrize("arguments", [["--rows", "0"], ["--conf", "x"], ["--version", "3"]])
def test_wrong_usage_is_exit_code_2(run_python: RunPython, arguments: list[str]) -> None:
    assert run_python("-m", "tailrace", "why", "somewhere", *arguments).returncode == 2
