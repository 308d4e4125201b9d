"""`tailrace size`: the command, for people and for machines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tailrace.commands import cli
from tailrace.sizing import Load, Prices, constants, size

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS = ["size", "--left", "20k", "--right", "10k", "--row-bytes", "500", "--after", "30 min"]


def run(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert cli.main([*ARGUMENTS, *more]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_the_command_gives_what_the_function_gives(capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "--partitions",
        "64",
        "--cores",
        "16",
        "--before",
        "1 min",
        "--delay",
        "2min",
        "--trigger",
        "20s",
    ]
    given += ["--release-every", "batch", "--matches", "2", "--replays", "1k", "--hosts", "100"]
    given += [
        "--windows-open",
        "3",
        "--executor-cores",
        "8",
        "--executor-memory",
        "8 GB",
        "--latency",
        "50ms",
    ]
    given += [
        "--executor-disk",
        "1TB",
        "--driver-memory",
        "4GB",
        "--recovery",
        "1 min",
        "--download",
        "100MB",
    ]
    given += ["--writes", "5k", "--price-put", "0.005", "--price-get", "0.0004", "--price-gb-month", "0.02"]
    found = json.loads(run(capsys, *given, "--price-core-hour", "0.05", "--eager", "--json"))
    load = Load(
        left=2e4,
        right=1e4,
        left_bytes=500,
        right_bytes=500,
        after=1800,
        before=60,
        delay=120,
        trigger=20,
        partitions=64,
        cores=16,
        eager=True,
        release_every=0,
        matches=2,
        origins=1000,
        hosts=100,
        windows_open=3,
        executor_cores=8,
        executor_memory=8e9,
        executor_disk=1e12,
        driver_memory=4e9,
        recovery=60,
        latency=0.05,
        download=1e8,
        writes=5000,
        prices=Prices(put=0.005, get=0.0004, gb_month=0.02, core_hour=0.05),
    )
    sized = size(load)
    assert found["load"]["prices"] == {"put": 0.005, "get": 0.0004, "gb_month": 0.02, "core_hour": 0.05}
    assert found["state"]["local_bytes"] == sized.state.local_bytes
    assert found["state"]["rows"] == sized.state.rows
    assert found["busy"]["total"] == sized.busy.total
    assert found["batch"]["seconds"] == sized.batch.seconds
    assert found["needs"]["cost"] == sized.needs.cost
    assert found["breaks_first"] == sized.breaks_first.name
    assert [limit["name"] for limit in found["limits"]] == [limit.name for limit in sized.limits]
    assert [limit["broken"] for limit in found["limits"]] == [limit.broken for limit in sized.limits]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--trigger", "0s"), "--trigger has to be above 0"),
        (("--download", "0"), "--download has to be above 0"),
        (("--release-every", "2 days"), "--release-every is longer than the window"),
        (("--after", "0s"), "--before and --after are both 0"),
    ],
)
def test_a_refusal_names_the_option_and_not_the_field(
    capsys: pytest.CaptureFixture[str], given: tuple[str, str], told: str
) -> None:
    text = refused(capsys, *ARGUMENTS, *given)
    assert told in text
    assert not re.search(r"(?<!-)(?<!\w)(trigger|download|release_every|after) (has|is|are)", text)


def test_people_read_what_is_suggested_and_what_breaks_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys)
    assert "20 k/s left of 500 B, 10 k/s right of 500 B\n" in text
    assert "window 30 min, delay 10 min, trigger 10 s, lazy, rows leave each 28.1 s\n" in text
    assert re.search(r"^partitions +\d+, suggested$", text, re.MULTILINE)
    assert re.search(r"^breaks first +[a-z -]+: .* of .*; breaks at [\d.]+ [kM] rows/s$", text, re.MULTILINE)
    assert re.search(r"^ +change: ", text, re.MULTILINE)
    assert "cost a day" not in text
    text = run(capsys, "--partitions", "8", "--cores", "4", "--price-core-hour", "0.1")
    assert re.search(r"^partitions +8$", text, re.MULTILINE)
    assert "cost a day        9.60: cores 9.60" in text


def test_what_is_broken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--writes", "0.1", "--executor-disk", "1k")
    broken = re.findall(r"^(breaks first|broken too) +([A-Za-z -]+):", text, re.MULTILINE)
    assert {name for _, name in broken} >= {"PUT requests", "local disk of an executor"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--after", "24"],
            "argument --after: '24' isn't a duration: it has no unit. Write a number and a unit",
        ),
        (["--left", "lots"], "argument --left: 'lots' isn't a rate. Write rows a second, such as 5M"),
        (["--row-bytes", "3 feet"], "argument --row-bytes: '3 feet' isn't a size"),
        (["--partitions", "1.5"], "argument --partitions: '1.5' isn't a whole number of one or more"),
        (["--price-put", "cheap"], "argument --price-put: 'cheap' isn't a price: write a number"),
        (["--matches", "-1"], "matches has to be 0 or more"),
        (["--release-every", "2 days"], "Set it to at most --before + --after"),
        (["--left", "0"], "left has to be above 0"),
    ],
)
def test_wrong_input_says_what_is_right(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *ARGUMENTS, *arguments)


def test_the_rows_of_both_sides_have_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    streams = ["size", "--left", "1k", "--right", "1k", "--after", "1h", "--left-bytes", "100"]
    assert "Name --row-bytes, or both --left-bytes and --right-bytes." in refused(capsys, *streams)
    assert cli.main([*streams, "--right-bytes", "50"]) == 0
    assert "1 k/s left of 100 B, 1 k/s right of 50 B" in capsys.readouterr().out


def test_each_constant_is_shown_with_a_file_that_is_there(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["size", "--constants"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert len(constants.table()) > 20
    for name, constant in constants.table():
        assert re.search(rf"^{name} ", text, re.MULTILINE)
        assert (repository / constant.source).is_file(), name
