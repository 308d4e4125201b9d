"""The examples of README and docs run as they stand there, and give the output that is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import local_spark
import pages
from tailrace.commands import cli
from trees import ANY_OUTPUT_MODE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TUTORIAL = "docs/tutorials/first-training-examples.md"
GUIDES = "docs/guides"
# Those that begin with nothing. The first one goes on where README ends.
TUTORIALS = sorted(
    page.stem
    for page in (Path(__file__).parents[2] / "docs/tutorials").glob("*.md")
    if page.name != Path(TUTORIAL).name
)


def _below(root: Path, code: str, *folders: str) -> str:
    """The code with its folders there: the session that is there has another working directory."""
    for folder in folders:
        code = code.replace(f'"{folder}"', f'"{root}/{folder}"')
    return code


FOLDERS = ("served", "engaged", "examples", "checkpoint")


def test_the_first_example_and_the_tutorial_give_what_they_show(
    spark: SparkSession,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    examples = [
        ("README.md", "quickstart"),
        *((TUTORIAL, name) for name in ("more-rows", "too-late", "trainer")),
    ]
    for document, name in examples:
        code, shown = pages.shown_example(repository, document, name)
        exec(_below(tmp_path, code, *FOLDERS), names)  # noqa: S102
        assert capsys.readouterr().out.strip() == shown.strip(), name
    assert spark.range(1).count() == 1


def test_the_join_that_readme_begins_with_is_the_one_of_its_program(repository: Path) -> None:
    assert pages.example(repository, "README.md", "join") in pages.example(
        repository, "README.md", "quickstart"
    )


def test_the_tutorial_shows_what_inspect_prints(
    spark: SparkSession, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = pages.shown_example(repository, "README.md", "quickstart")
    exec(_below(tmp_path, code, *FOLDERS), {})  # noqa: S102
    capsys.readouterr()
    assert cli.main(["inspect", f"{tmp_path}/checkpoint"]) == 0
    printed = capsys.readouterr().out.splitlines()
    text = (repository / TUTORIAL).read_text()
    shown = re.search(r"```sh\ntailrace inspect checkpoint\n```\n\n```\n(.*?)```", text, re.DOTALL)
    assert shown
    lines = [line for line in shown[1].splitlines() if line.strip() not in {"", "..."}]
    assert len(lines) >= 8
    for line in lines[1:]:
        assert line in printed, line
    assert spark.range(1).count() == 1


@pytest.mark.parametrize(
    ("document", "least"), [("CONTRIBUTING.md", 10), ("docs/running-on-a-cluster.md", 5)]
)
def test_the_tests_that_a_document_names_are_there(repository: Path, document: str, least: int) -> None:
    text = (repository / document).read_text()
    named = set(re.findall(r"`(?:tests/\w+/)?(\w+Suite|test_\w+\.py)`", text))
    files = {path.name for path in (repository / "tests").rglob("*") if path.suffix in {".py", ".scala"}}
    assert len(named) > least
    assert {name for name in named if name not in files and f"{name}.scala" not in files} == set()


def test_the_files_and_headings_that_documents_link_to_are_there(repository: Path) -> None:
    documents = pages.written(repository)
    assert len(documents) > 10
    for document in documents:
        text = document.read_text()
        for link in set(re.findall(r"\]\(([^)\s]+)\)", text)):
            name, _, heading = link.partition("#")
            if name.startswith("https:"):
                continue
            target = document.parent / name if name else document
            assert target.exists(), f"{document}: {link}"
            if heading:
                lines = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
                slugs = {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}
                assert heading in slugs, f"{document}: {link}"


@pytest.mark.campaign
def test_the_tests_of_the_guide_run_in_a_project_of_their_own(repository: Path, tmp_path: Path) -> None:
    blocks = pages.test_files(repository, f"{GUIDES}/testing.md")
    assert len(blocks) >= 3
    for name, code in blocks.items():
        (tmp_path / f"test_{name}.py").write_text(code)
    # A folder of its own, as a user's: neither our conftest.py nor our options are found.
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-q"]
    environ = {**os.environ, **local_spark.interpreted(tmp_path / "conf")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(blocks)} passed" in done.stdout


def test_the_readme_is_short(repository: Path) -> None:
    assert len((repository / "README.md").read_text().splitlines()) <= 150


def test_the_sizing_of_the_page_is_what_the_command_prints(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "docs/running-on-a-cluster.md").read_text()
    found = re.search(r"```sh\ntailrace (size .*?)\n```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found
    assert cli.main(shlex.split(found[1])) == 0
    assert capsys.readouterr().out == found[2]


def test_the_commands_that_ci_takes_from_a_document_are_there(repository: Path) -> None:
    taken = re.findall(r"documented (\S+\.md) (\w+)$", (repository / ".ci/run").read_text(), re.MULTILINE)
    assert ("README.md", "test") in taken
    assert len(taken) > 5
    for document, name in taken:
        assert re.search(rf"<!-- ci:{name} -->\n```sh\n\S", (repository / document).read_text()), name


@pytest.fixture
def descendants(
    spark: SparkSession,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> dict[str, object]:
    """The names of the recursion's example, which has run and has shown what the guide says."""
    code, shown = pages.shown_example(repository, f"{GUIDES}/recursion.md", "recursion")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(_below(tmp_path, code, "tree"), names)  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1
    return names


def test_the_recursion_example_counts_descendants(descendants: dict[str, object]) -> None:
    assert "counts" in descendants


@ANY_OUTPUT_MODE
def test_the_recursion_example_of_streams_counts_in_any_order(
    descendants: dict[str, object], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/recursion.md", "recursion-of-streams")
    exec(code, descendants)  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.usefixtures("spark")
def test_the_sync_example_shows_the_pause_and_the_end_of_it(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/synced-join.md", "sync")
    exec(code.replace("parquet(topic)", f'parquet("{tmp_path}/" + topic)'), {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.usefixtures("spark")
def test_the_as_of_example_finds_no_value_of_later(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for name in ("as-of", "as-of-initial"):
        code, shown = pages.shown_example(repository, f"{GUIDES}/as-of.md", name)
        exec(code, names)  # noqa: S102
        assert capsys.readouterr().out.strip() == shown.strip(), name


# A client has it as a warning, and a classic session as a line of its log.
@pytest.mark.filterwarnings("ignore:WARN WindowExpression")
def test_the_delay_example_gives_what_it_shows(
    spark: SparkSession, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/watermark-delay.md", "delay")
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1


def test_features_that_are_loaded_once_a_day_hold_no_example_back(
    spark: SparkSession, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/daily-features.md", "daily-features")
    exec(_below(tmp_path, code, "served", "ordered", "profiles", "examples", "checkpoint"), {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1


@pytest.mark.campaign
@pytest.mark.usefixtures("spark")
def test_the_training_examples_are_those_that_are_shown(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/training-examples.md", "examples")
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.campaign
def test_the_examples_of_windows_of_labels_give_what_they_show(
    spark: SparkSession, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    for name in ("preflight", "maturity"):
        code, shown = pages.shown_example(repository, f"{GUIDES}/windows-of-labels.md", name)
        exec(_below(tmp_path, code, "examples", "maturity"), names)  # noqa: S102
        assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1


def test_the_reconciliation_is_the_one_that_is_shown(
    spark: SparkSession, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/reconcile.md", "reconcile")
    code = code.replace('parquet("', f'parquet("{tmp_path}/').replace(
        "parquet(name)", f'parquet("{tmp_path}/" + name)'
    )
    exec(_below(tmp_path, code, "landed", "landed-checkpoint"), {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1


def test_the_backfill_is_the_one_that_is_shown(
    spark: SparkSession, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/backfill.md", "backfill")
    folders = ("impressions-table", "clicks-table", "impressions", "clicks", "examples", "checkpoint")
    code = code.replace('"impressions": ', "IMPRESSIONS: ").replace('"clicks": ', "CLICKS: ")
    code = _below(tmp_path, code, *folders)
    code = code.replace("IMPRESSIONS: ", '"impressions": ').replace("CLICKS: ", '"clicks": ')
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1


def test_the_example_with_pandas_gives_what_it_shows(
    spark: SparkSession, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pandas")
    code, shown = pages.shown_example(repository, "docs/faq.md", "pandas")
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out.rstrip() == shown.rstrip()
    assert spark.range(1).count() == 1


def test_the_windows_example_waits_for_the_host_that_lags(
    spark: SparkSession, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/complete-windows.md", "windows")
    exec(_below(tmp_path, code, "logs", "clicks", "clicks-checkpoint"), {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    landed = {
        file.relative_to(tmp_path).as_posix() for file in (tmp_path / "clicks").glob("window_start=*/*")
    }
    assert "clicks/window_start=20260101T120000Z/_SUCCESS" in landed
    assert any(name.startswith("clicks/window_start=20260101T130000Z/part-") for name in landed)
    assert spark.range(1).count() == 1


def test_the_training_example_continues_where_it_was_stopped(
    spark: SparkSession,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/trainers.md", "trainers")
    monkeypatch.chdir(tmp_path)
    exec(_below(tmp_path, code, "logs", "clicks", "clicks-checkpoint"), {})  # noqa: S102
    assert capsys.readouterr().out.strip() == shown.strip()
    assert spark.range(1).count() == 1


def _printed(code: str, directory: Path) -> list[str]:
    """The lines that a script prints in a process and a Spark of its own."""
    script = directory / "example.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **local_spark.interpreted(directory / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 0, done.stderr[-6000:]
    # A reader would take the frames of an exception for a failure.
    assert "\n\tat " not in done.stderr, done.stderr[-6000:]
    return done.stdout.splitlines()


@pytest.mark.campaign
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_gives_what_it_shows(repository: Path, tmp_path: Path, name: str) -> None:
    code, shown = pages.examples(repository, f"docs/tutorials/{name}.md")
    assert [line for line in _printed(code, tmp_path) if line] == [
        line for line in shown.splitlines() if line
    ]


@pytest.mark.campaign
def test_the_replays_example_shows_replays_and_drops_them(repository: Path, tmp_path: Path) -> None:
    code, shown = pages.shown_example(repository, f"{GUIDES}/replays.md", "replays")
    lines = _printed(code, tmp_path)[-2:]
    # The number of records that are written again depends on how Kafka's producer spreads them.
    written = re.fullmatch(r"topic 2: (\d+) records of 1000", lines[0])
    assert written is not None, lines
    assert int(written[1]) > 1000
    assert lines[1] == shown.splitlines()[1] == "out of the filter: 1000 records of 1000"
