"""`benchmarks/criteo.py`: the streams joined again are what loops find, and what differs is told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import criteo_layout
import criteo_oracle
import criteo_query
import criteo_sample
from criteo_agreement import UNEXPLAINED, Agreement, compare

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from criteo_layout import Told
    from criteo_query import Joined

    RunPython = Callable[..., subprocess.CompletedProcess[str]]

COMMAND = str(Path(__file__).parents[2] / "benchmarks/criteo.py")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("criteo")
    criteo_sample.write(directory / "sample.tsv.gz", users=150)
    return directory


@pytest.fixture(scope="module")
def told(sample: Path) -> Told:
    return criteo_layout.load(sample / "sample.tsv.gz", sample, slices=3)


@pytest.fixture(scope="module")
def right(told: Told) -> Joined:
    return criteo_oracle.joined(told)


def line(told: Told, joined: Joined, name: str) -> Agreement:
    return next(one for one in compare(told, joined).agreements if one.name == name)


@pytest.mark.slow
def test_the_streams_joined_again_are_what_loops_find(
    spark: SparkSession, sample: Path, told: Told, right: Joined
) -> None:
    found = criteo_oracle.as_sets(criteo_query.run(spark, sample))
    assert found == criteo_oracle.as_sets(right)
    assert len(found["examples"]) == len(told) > 500
    assert min(len(found[name]) for name in ("last", "first")) > 30
    assert len(found["linear"]) > len(found["last"]) + 10


@pytest.mark.slow
def test_a_file_without_clicks_and_conversions_is_joined_and_compared(
    spark: SparkSession, tmp_path: Path
) -> None:
    values = ["-1" if name.startswith("conversion_") else "0" for name in criteo_layout.COLUMNS]
    lines = ["\t".join(line) for line in (criteo_layout.COLUMNS, values, values)]
    (tmp_path / "file").write_text("\n".join(lines) + "\n")
    told = criteo_layout.load(tmp_path / "file", tmp_path, slices=1)
    joined = criteo_query.run(spark, tmp_path)
    assert criteo_oracle.as_sets(joined) == {
        "examples": [(0, False, -1), (1, False, -1)],
        "clicks": [],
        "last": [],
        "first": [],
        "linear": [],
    }
    verdict = compare(told, joined)
    assert verdict.right
    assert [(one.compared, one.equal) for one in verdict.agreements] == [(2, 2), (2, 2), *[(0, 0)] * 4]


def test_all_that_differs_from_the_file_has_a_reason(told: Told, right: Joined) -> None:
    verdict = compare(told, right)
    assert verdict.right
    agreements = {one.name: one for one in verdict.agreements}
    assert [*agreements] == ["click", "conversion", "conversion_id", "last_touch", "first_touch", "linear"]
    for one in agreements.values():
        counts = dict(one.differing)
        assert UNEXPLAINED not in counts
        assert one.compared == one.equal + sum(counts.values())
    assert agreements["click"].equal == agreements["conversion"].equal == len(told)
    # Some users have clicked before the file begins, and some have converted twice.
    assert len(agreements["first_touch"].differing) == len(agreements["linear"].differing) == 2
    # By the file alone, and not by the streams.
    clicks = told.in_stream & (told["click"] == 1)
    assert agreements["last_touch"].compared == clicks.sum() > 30


def test_a_result_that_is_wrong_is_told(told: Told, right: Joined) -> None:
    examples = right.examples
    lost = replace(right, clicks=right.clicks[1:])
    assert (compare(told, lost).missing, compare(told, lost).right) == (1, False)
    again = replace(right, clicks=np.append(right.clicks, right.clicks[0]))
    assert (compare(told, again).twice, compare(told, again).right) == (1, False)
    fewer = replace(
        right,
        examples=replace(
            examples,
            impression=examples.impression[1:],
            clicked=examples.clicked[1:],
            conversion=examples.conversion[1:],
        ),
    )
    assert compare(told, fewer).missing == 1
    shares = right.linear.billionths.copy()
    shares[0] -= 1
    parts = replace(right, linear=replace(right.linear, billionths=shares))
    assert (compare(told, parts).whole, compare(told, parts).right) == (False, False)
    unclicked = examples.clicked.copy()
    unclicked[np.flatnonzero(unclicked)[0]] = False
    wrong = replace(right, examples=replace(examples, clicked=unclicked))
    assert line(told, wrong, "click").differing == ((UNEXPLAINED, 1),)
    unsold = examples.conversion.copy()
    unsold[np.flatnonzero(unsold >= 0)[0]] = -1
    wrong = replace(right, examples=replace(examples, conversion=unsold))
    assert line(told, wrong, "conversion").differing == ((UNEXPLAINED, 1),)


SHOWN = {"timestamp": [0, 10], "uid": [7, 7], "campaign": [1, 1], "click": [1, 1], "attribution": [0, 0]}
BOUGHT = {"conversion": [1, 1], "conversion_id": [5, 5], "conversion_timestamp": [20, 20]}
CLICKED = {"click_pos": [0, 1], "click_nb": [2, 2]}
REASONS = {
    "the conversion has no id": {"conversion_id": [-1, 5], "uid": [7, 8]},
    "the conversion was before the impression": {"conversion_timestamp": [5, 5]},
    "the conversion was more than 30 days later": {
        "timestamp": [0, criteo_layout.WINDOW_S],
        "conversion_timestamp": [criteo_layout.WINDOW_S + 1] * 2,
    },
    "lines of the conversion name another user, campaign or time": {"uid": [7, 8]},
    "the file has none here, but by another line the user converted within 30 days": {
        "conversion": [0, 1],
        "conversion_id": [-1, 5],
    },
}


@pytest.mark.parametrize("reason", REASONS)
def test_lines_of_a_real_file_that_no_stream_can_give_are_explained(reason: str) -> None:
    columns = {
        name: np.array(values) for name, values in (SHOWN | BOUGHT | CLICKED | REASONS[reason]).items()
    }
    told = criteo_layout.Told(columns, 1, 0)
    one = line(told, criteo_oracle.joined(told), "conversion")
    assert (one.compared, one.equal, one.differing) == (2, 1, ((reason, 1),))
    assert one.lines() == ["1 of 2 agree", f"1 differ: {reason}"]


@pytest.mark.long
def test_the_command(run_python: RunPython, sample: Path, told: Told, right: Joined) -> None:
    file = str(sample / "sample.tsv.gz")
    done = run_python(COMMAND, file, "--slices", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = f"{len(told):,} impressions, {len(right.clicks):,} clicks, {told.conversions:,} conversions"
    assert re.search(rf"^the file +{counts}$", done.stdout, re.MULTILINE)
    assert "each impression and each click was emitted once" in done.stdout
    for one in compare(told, right).agreements:
        lines = "\n +".join(map(re.escape, one.lines()))
        assert re.search(rf"^{one.name} +{lines}\n\w", done.stdout, re.MULTILINE)


@pytest.mark.campaign
def test_without_a_file_a_sample_is_made_and_the_guide_shows_it(
    run_python: RunPython, repository: Path
) -> None:
    done = run_python(COMMAND, "--slices", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("Making a sample in the layout of the Criteo attribution data set ...\n")
    guide = (repository / "docs/guides/attribution.md").read_text()
    shown = guide[guide.index("```text\nthe file ") :].split("```")[1].splitlines()[1:]
    printed = done.stdout.splitlines()[-len(shown) :]
    took = [i for i, text in enumerate(shown) if text.startswith("joined")]
    assert took == [1]
    assert [*shown[:1], *shown[2:]] == [*printed[:1], *printed[2:]]


def test_a_file_of_another_layout_is_told_in_a_line(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("timestamp\tuid\n1\t2\n")
    done = run_python(COMMAND, str(tmp_path / "file"))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("criteo.py: ")
    assert "it has no column `campaign`, `conversion`" in done.stderr
