"""The specifications in `jvm/docs/spec`: that each of their invariants and guards is tried."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from check import check, main, tools
from configurations import ALL, SPECIFICATIONS

MODULES = sorted(path.stem for path in SPECIFICATIONS.glob("*.tla"))


def test_each_configuration_has_a_name_of_its_own() -> None:
    assert [title for title, count in Counter(c.title for c in ALL).items() if count > 1] == []


@pytest.mark.parametrize("module", MODULES)
def test_each_invariant_is_claimed_and_seen_violated_in_ci(module: str) -> None:
    small = [c for c in ALL if c.module == module and not c.is_large]
    claimed = {i for c in small if c.violates is None for i in c.invariants}
    assert claimed == {c.violates for c in small if c.violates}
    text = (SPECIFICATIONS / f"{module}.tla").read_text()
    assert all(re.search(rf"^{invariant} ==", text, re.MULTILINE) for invariant in claimed)


@pytest.mark.parametrize("module", MODULES)
def test_each_mutation_of_a_specification_is_tried(module: str) -> None:
    text = (SPECIFICATIONS / f"{module}.tla").read_text()
    assert set(re.findall(r'Fault [=#] "([^"]+)"', text)) | {"none"} == {
        c.constants["Fault"].strip('"') for c in ALL if c.module == module
    }


def test_the_readme_names_all_specifications() -> None:
    text = (SPECIFICATIONS / "README.md").read_text()
    assert all(f"[{module}.tla]({module}.tla)" in text for module in MODULES)
    large = [c for c in ALL if c.is_large]
    assert [c.title for c in large if f"| {c.module} | {c.name} |" not in text] == []


@pytest.mark.campaign
def test_a_violation_that_is_not_expected_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    found = next(c for c in ALL if c.name == "commits before uploads end")
    assert found.violates is not None
    outcome = check(found, tools())
    assert outcome.is_expected(found)
    assert "<Commit" in outcome.output
    assert not outcome.is_expected(replace(found, violates=None))
    broken = check(replace(found, constants={}), tools())
    assert broken.error is not None
    assert not broken.is_expected(found)
    assert main(["--only", found.title]) == 0
    assert "RestartIsPossible is violated" in capsys.readouterr().out
