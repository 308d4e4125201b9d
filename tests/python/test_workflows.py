"""Workflows and forms of the repository on GitHub: pins, permissions, time limits, and names that exist."""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tailrace.commands import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_GITHUB = Path(__file__).resolve().parents[2] / ".github"
WORKFLOWS = sorted((_GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((_GITHUB / "actions").glob("*/action.yml"))
FORMS = sorted((_GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))

_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+){2}")
_SCRIPT = re.compile(r"(?<![\w./-])((?:\.ci|dev|python|tests)/[\w./-]+)")
_PUBLISHES = ("gh-action-pypi-publish", "sonaRelease")
# Jobs that may write something. Each other job reads at most.
_WRITES = {
    "codeql.yml/analyze": {"security-events"},
    "release.yml/github-release": {"contents"},
    "release.yml/provenance": {"attestations", "id-token"},
    "release.yml/python-package": {"id-token"},
    "scorecard.yml/scorecard": {"id-token", "security-events"},
}


def _read(file: Path) -> Any:  # noqa: ANN401  a tree of YAML
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def _jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in WORKFLOWS:
        for name, job in _read(file)["jobs"].items():
            yield f"{file.name}/{name}", job


def _steps() -> Iterator[dict[str, Any]]:
    for _, job in _jobs():
        yield from job["steps"]
    for file in ACTIONS:
        yield from _read(file)["runs"]["steps"]


def _uses() -> list[str]:
    """What follows each `uses:`, with its comment, which YAML leaves out."""
    texts = [file.read_text(encoding="utf-8") for file in (*WORKFLOWS, *ACTIONS)]
    return [used for text in texts for used in re.findall(r"^ *(?:- )?uses: *(.+)$", text, re.MULTILINE)]


JOBS = dict(_jobs())
SCRIPTS = sorted({name for step in _steps() for name in _SCRIPT.findall(step.get("run", ""))})


def test_there_are_workflows() -> None:
    assert {file.stem for file in WORKFLOWS} == {"ci", "codeql", "nightly", "release", "scorecard"}
    # None has an action that the lines of `_uses` lack.
    assert sorted(used.split(" #")[0] for used in _uses()) == sorted(
        step["uses"] for step in _steps() if "uses" in step
    )


def test_each_action_is_pinned_by_its_digest() -> None:
    digests: dict[str, set[str]] = {}
    for used in _uses():
        if used.startswith("./"):  # of this repository, at the commit that runs
            assert (_GITHUB.parent / used.removeprefix("./") / "action.yml").is_file(), used
        else:
            assert _PINNED.fullmatch(used), used
            name, digest = used.split("@")
            digests.setdefault(name, set()).add(digest)
    assert {name: found for name, found in digests.items() if len(found) > 1} == {}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_no_permission_but_reading(file: Path) -> None:
    assert _read(file)["permissions"] in ({}, {"contents": "read"})
    assert "concurrency" in _read(file)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_has_a_time_limit_and_few_permissions(name: str) -> None:
    job = JOBS[name]
    assert 0 < job["timeout-minutes"] <= 360
    permissions = job["permissions"]
    assert {scope for scope, right in permissions.items() if right != "read"} == _WRITES.get(name, set())


def test_no_checkout_leaves_a_token_behind() -> None:
    checkouts = [step for step in _steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_secrets_and_publishing_need_an_approval() -> None:
    approved = {name for name, job in JOBS.items() if job.get("environment") == "release"}
    publish = {name for name, job in JOBS.items() if any(one in json.dumps(job) for one in _PUBLISHES)}
    secret = {name for name, job in JOBS.items() if "secrets." in json.dumps(job)}
    assert publish == approved == {"release.yml/python-package", "release.yml/maven-central"}
    assert secret <= approved


def test_only_a_tag_of_a_version_starts_a_release() -> None:
    # YAML reads the key `on` as true.
    assert _read(_GITHUB / "workflows/release.yml")[True] == {"push": {"tags": ["v*"]}}


def test_ci_runs_what_decides() -> None:
    steps = [step for step in JOBS["ci.yml/ci"]["steps"] if step.get("run") == ".ci/run"]
    assert [step["env"] for step in steps] == [{"CI": "true"}]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_of_a_workflow_exists(script: str) -> None:
    assert (_GITHUB.parent / script).is_file()


def test_the_scripts_of_ci_night_and_release_are_used() -> None:
    assert {".ci/run", "dev/nightly.py", "dev/release.py"} <= set(SCRIPTS)


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script.startswith("dev/")])
def test_options_of_a_script_are_in_its_source(script: str) -> None:
    source = (_GITHUB.parent / script).read_text(encoding="utf-8")
    lines = [line for step in _steps() for line in step.get("run", "").splitlines() if script in line]
    for option in re.findall(r"--[a-z-]+", " ".join(lines)):
        assert f'"{option}"' in source, option


def test_each_step_of_the_night_is_in_one_job(load_script: Callable[[str], ModuleType]) -> None:
    steps = [step.name for step in load_script("dev/nightly.py").STEPS]
    parts = JOBS["nightly.yml/nightly"]["strategy"]["matrix"]["include"]
    patterns = [part["only"] for part in parts]
    for step in steps:
        assert sum(fnmatch.fnmatch(step, pattern) for pattern in patterns) == 1, step
    for pattern in patterns:
        assert fnmatch.filter(steps, pattern), pattern
    assert len({part["part"] for part in parts}) == len(parts)


@pytest.mark.parametrize("file", FORMS, ids=lambda file: file.name)
def test_forms_name_commands_that_there_are(file: Path) -> None:
    parser = cli.command_line()
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    options = {option for action in parser._actions for option in action.option_strings}
    for name in re.findall(r"`tailrace ([\w-]+)", file.read_text(encoding="utf-8")):
        assert name in {*commands.choices, *options}, name


def test_a_bug_report_asks_for_what_explains_it() -> None:
    body = _read(_GITHUB / "ISSUE_TEMPLATE/bug_report.yml")["body"]
    asked = {part["id"]: part for part in body if "id" in part}
    required = {name for name, part in asked.items() if part.get("validations", {}).get("required")}
    assert required == {"what", "reproduce", "doctor", "versions"}
    for name, text in {
        "doctor": "`tailrace doctor`",
        "versions": "`tailrace --version`",
        "progress": "`query.lastProgress`",
        "checkpoint": "`tailrace inspect CHECKPOINT`",
    }.items():
        assert text in json.dumps(asked[name]["attributes"])


def test_what_the_pages_of_the_project_link_to_exists() -> None:
    for page in _GITHUB.glob("*.md"):
        for link in re.findall(r"\]\((?!https://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).is_file(), f"{page.name}: {link}"
    for file in (*FORMS, _GITHUB / "pull_request_template.md"):
        for link in re.findall(r"/tailrace/tailrace/blob/main/([\w./-]+)", file.read_text(encoding="utf-8")):
            assert (_GITHUB.parent / link).is_file(), f"{file.name}: {link}"


def test_one_tool_updates_actions_python_and_sbt(repository: Path) -> None:
    renovate = json.loads((_GITHUB / "renovate.json").read_text(encoding="utf-8"))
    assert {"dockerfile", "github-actions", "pep621", "sbt"} <= set(renovate["enabledManagers"])
    (constraints,) = renovate["pip_requirements"]["managerFilePatterns"]
    assert re.search(constraints.strip("/"), ".ci/constraints.txt")
    assert not (_GITHUB / "dependabot.yml").exists()
    versions = (repository / "project/Versions.scala").read_text(encoding="utf-8")
    for manager in renovate["customManagers"]:
        for pattern in manager["matchStrings"]:
            found = re.findall(pattern.replace("(?<", "(?P<"), versions)
            assert len(found) == 1, pattern
