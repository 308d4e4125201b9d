from __future__ import annotations

import base64
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.demo import data, oracle, progress

RunPython = Callable[..., subprocess.CompletedProcess[str]]
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
AFTER_US = 30 * 60_000_000


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> data.Workload:
    return data.generate(tmp_path_factory.mktemp("streams"), rows=2_000, slices=4)


def naive_groups(workload: data.Workload) -> dict[int, list[tuple[int, int]]]:
    """Labels as (time, id) of each impression, by two loops and no cleverness at all."""
    left, right = workload.impressions, workload.engagements
    by_key = defaultdict(list)
    rows = (right.user.tolist(), right.item.tolist(), right.time_us.tolist(), right.id.tolist())
    for user, item, engaged, engagement in zip(*rows, strict=True):
        by_key[user, item].append((engaged, engagement))
    rows = (left.id.tolist(), left.user.tolist(), left.item.tolist(), left.time_us.tolist())
    return {
        impression: sorted(label for label in by_key[user, item] if served <= label[0] <= served + AFTER_US)
        for impression, user, item, served in zip(*rows, strict=True)
    }


def result_of(directory: Path, groups: list[tuple[int, list[tuple[int, int]]]]) -> oracle.Result:
    labels = [[{"engaged_at": time, "engagement_id": label} for time, label in group] for _, group in groups]
    label_type = pa.struct([("engaged_at", pa.timestamp("us", "UTC")), ("engagement_id", pa.int64())])
    table = pa.table(
        {
            "impression_id": pa.array([impression for impression, _ in groups], pa.int64()),
            "labels": pa.array(labels, pa.list_(label_type)),
        }
    )
    pq.write_table(table, directory / "part.parquet")
    return oracle.read([str(directory / "part.parquet")])


def test_files_are_in_order_of_arrival_and_one_closes(workload: data.Workload) -> None:
    for directory in (workload.impressions_dir, workload.engagements_dir):
        files = sorted(directory.iterdir())
        times = [file.stat().st_mtime for file in files]
        assert times == sorted(set(times))
        assert [pq.read_metadata(file).num_rows for file in files][-1] == 1
        assert len(files) == 5


def test_no_row_arrives_behind_the_watermark(workload: data.Workload) -> None:
    for directory, column in (
        (workload.impressions_dir, "served_at"),
        (workload.engagements_dir, "engaged_at"),
    ):
        newest = 0
        for file in sorted(directory.iterdir()):
            times = pq.read_table(file)[column].cast(pa.int64()).to_numpy()
            assert times.min() > newest - 120_000_000
            newest = max(newest, int(times.max()))


def test_the_same_seed_makes_the_same_streams(workload: data.Workload, tmp_path: Path) -> None:
    again = data.generate(tmp_path, rows=2_000, slices=4)
    assert np.array_equal(again.engagements.time_us, workload.engagements.time_us)


def test_the_oracle_agrees_with_two_loops(workload: data.Workload) -> None:
    pairs = {
        (impression, label) for impression, group in naive_groups(workload).items() for _, label in group
    }
    found = oracle.expected_groups(workload, AFTER_US)
    assert {tuple(pair) for pair in found.pairs.tolist()} == pairs
    assert len(found.pairs) == len(pairs) > 100


def test_a_right_result_is_equal(workload: data.Workload, tmp_path: Path) -> None:
    groups = naive_groups(workload)
    result = result_of(tmp_path, list(groups.items()))
    labels = [len(group) for group in groups.values()]
    assert result.totals == oracle.Totals(2_000, sum(n > 0 for n in labels), sum(labels))
    verdict = oracle.compare(result, oracle.expected_groups(workload, AFTER_US))
    assert verdict.equal
    assert verdict.line() == "checked: 2,000 groups equal the brute-force answer"


def test_every_kind_of_wrong_result_is_seen(workload: data.Workload, tmp_path: Path) -> None:
    groups = sorted(naive_groups(workload).items(), key=lambda group: -len(group[1]))
    impression, labels = groups[0]
    groups[0] = (impression, labels[::-1])
    groups[1] = (groups[1][0], groups[1][1][1:])
    groups[-1] = groups[-2]
    verdict = oracle.compare(result_of(tmp_path, groups), oracle.expected_groups(workload, AFTER_US))
    assert (verdict.missing, verdict.unexpected, verdict.wrong_labels) == (1, 1, 1)
    assert verdict.disordered == len(labels) - 1
    assert not verdict.equal
    assert verdict.line().startswith("WRONG")


def test_no_result_at_all_is_wrong(workload: data.Workload) -> None:
    verdict = oracle.compare(oracle.read([]), oracle.expected_groups(workload, AFTER_US))
    assert verdict.missing == verdict.expected == 2_000
    assert not verdict.equal


@pytest.mark.parametrize(
    ("reported", "shown"),
    [("1970-01-01T00:00:00.000Z", ""), ("2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00.000Z")],
)
def test_no_watermark_is_no_time(reported: str, shown: str) -> None:
    metrics: dict[str, int] = defaultdict(int)
    batch = progress.read_batch(
        {
            "batchId": 0,
            "numInputRows": 0,
            "durationMs": {},
            "eventTime": {"watermark": reported},
            "stateOperators": [{"numRowsTotal": 0, "memoryUsedBytes": 0, "customMetrics": metrics}],
        }
    )
    assert batch.watermark == shown
    assert batch.rate == 0


def test_a_batch_shows_its_rate_and_both_sizes_of_its_state() -> None:
    metrics = {"leftStoreBytes": 2_000_000, "rightStoreBytes": 600_000, "joinedStoreBytes": 400_000}
    metrics["stateFileBytes"] = 1_250_000
    metrics |= dict.fromkeys(
        ("groupsEmitted", "groupsMatched", "labelsEmitted", "lateLeftRows", "lateRightRows"), 0
    )
    batch = progress.read_batch(
        {
            "batchId": 3,
            "numInputRows": 5_000,
            "durationMs": {"triggerExecution": 2_500},
            "eventTime": {"watermark": "W"},
            "stateOperators": [{"numRowsTotal": 70, "memoryUsedBytes": 9, "customMetrics": metrics}],
        }
    )
    assert batch.rate == 2_000
    assert batch.line().split() == ["3", "5,000", "2,000", "0", "70", "3.00", "1.25", "2.50", "W"]
    assert len(batch.line().rstrip("W")) == progress.HEADER.index("watermark")


@pytest.mark.slow
@pytest.mark.parametrize("package", ["jinja2", "matplotlib", "numpy"])
def test_a_missing_package_is_told_in_a_line_with_its_extra(package: str, run_python: RunPython) -> None:
    code = f"""import sys
sys.modules[{package!r}] = None
from tailrace.commands.cli import main
sys.exit(main(["demo"]))"""
    done = run_python("-c", code)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"tailrace: [TAILRACE_DEMO_DEPENDENCY_MISSING] The demo needs {package}, which isn't installed. "
        "Install what it needs: pip install 'jinja2>=3.1' 'matplotlib>=3.8' 'numpy>=1.26' 'rich>=13.9'.\n"
    )


def test_a_directory_that_cannot_be_written_is_told_at_once(run_python: RunPython, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_python("-m", "tailrace", "demo", "--out", str(tmp_path / "file"))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"tailrace: The directory .*/file can't be written: .* --out\.\n", done.stderr)


@pytest.mark.campaign
def test_the_command(run_python: RunPython, tmp_path: Path) -> None:
    command = ("-m", "tailrace", "demo", "--rows", "3000", "--slices", "3", "--out", str(tmp_path))
    done = run_python(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    shown, told = done.stdout.split("Killed the query and its Spark (kill -9). Starting both again ...\n")
    batches = [int(line.split()[0]) for line in shown.splitlines() if re.match(r" +\d", line)]
    again = [int(line.split()[0]) for line in told.split("Checking")[0].splitlines()]
    assert batches == [0, 1]
    # The next one had ended, perhaps, when the kill came.
    assert again[0] in {2, 3}
    assert again == list(range(again[0], again[-1] + 1))
    assert re.search(r"^killed +by kill -9 after micro-batch 1, .* nothing is lost", told, re.MULTILINE)
    assert "checked: 3,000 groups equal the brute-force answer" in done.stdout
    assert re.search(r"^rows in +3,000 impressions, \d", done.stdout, re.MULTILINE)
    assert re.search(r"^groups out +3,000$", done.stdout, re.MULTILINE)
    assert re.search(r"^labels matched +[1-9]", done.stdout, re.MULTILINE)
    assert re.search(r"^unmatched share +\d+\.\d%$", done.stdout, re.MULTILINE)
    assert re.search(r"^late rows +0$", done.stdout, re.MULTILINE)
    state = r"\d[\d,]* rows, (\d+\.\d\d) MB, in files of (\d+\.\d\d) MB"
    peak = re.search(rf"^state at its peak +{state}$", done.stdout, re.MULTILINE)
    assert peak is not None
    assert float(peak[1]) > float(peak[2]) > 0
    # All groups are out; what is left are the rows that closed the streams, in a file a partition at most.
    end = re.search(r"^state at the end +(\d+) rows, 0\.00 MB", done.stdout, re.MULTILINE)
    assert end is not None
    assert int(end[1]) <= 2
    assert re.search(
        r"^fastest batch +[1-9][\d,]* rows/s \([1-9][\d,]* rows in \d+\.\d\d s\)$", done.stdout, re.MULTILINE
    )
    paths = [Path(line) for line in done.stdout.splitlines()[-2:]]
    assert paths == [tmp_path / "demo.png", tmp_path / "demo.html"]
    png = paths[0].read_bytes()
    assert png.startswith(PNG_MAGIC)
    page = paths[1].read_text()
    assert base64.b64encode(png).decode() in page
    assert "http" not in page


@pytest.mark.long
def test_the_comparison(run_python: RunPython, tmp_path: Path) -> None:
    command = ("-m", "tailrace", "demo", "--rows", "3000", "--slices", "3", "--out", str(tmp_path))
    done = run_python(*command, "--compare", "--no-kill")
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout
    assert "kill" not in told
    pattern = r"^Spark's own join +[\d,]+ rows/s in .* ([\d,]+) rows were emitted"
    sparks = re.search(pattern, told, re.MULTILINE)
    assert sparks is not None
    labels = re.search(r"^labels matched +([\d,]+)$", told, re.MULTILINE)
    unmatched = re.search(r"^unmatched share +([\d.]+)%$", told, re.MULTILINE)
    assert labels is not None
    assert unmatched is not None
    pairs = int(labels[1].replace(",", "")) + float(unmatched[1]) / 100 * 3000
    assert int(sparks[1].replace(",", "")) == pytest.approx(pairs, abs=2)
