"""`dev/regression.py`: what counts as slower, and which commit is blamed for it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def regression(load_script: Callable[[str], ModuleType]) -> Any:  # noqa: ANN401
    return load_script("dev/regression.py")


@pytest.mark.parametrize(
    ("ratios", "verdict", "asked"),
    [
        ([[0.98, 0.9, 1.1]], None, [3]),
        # The second measurement decides.
        ([[0.97, 0.9, 1.1], [1.0] * 6], None, [3, 6]),
        ([[0.97, 0.9, 1.1], [0.96] * 6], 0.96, [3, 6]),
    ],
)
def test_two_measurements_have_to_agree(
    regression: Any,  # noqa: ANN401
    ratios: list[list[float]],
    verdict: float | None,
    asked: list[int],
) -> None:
    counts: list[int] = []

    def measure(count: int) -> list[float]:
        counts.append(count)
        return ratios[len(counts) - 1]

    assert regression.slower(measure, 3) == verdict
    assert counts == asked


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 100])
def test_the_first_slower_commit_is_found_in_few_steps(regression: Any, count: int) -> None:  # noqa: ANN401
    commits = [str(number) for number in range(count)]
    for first in range(count):
        asked: list[str] = []

        def is_slower(commit: str, first: int = first, asked: list[str] = asked) -> bool:
            asked.append(commit)
            return int(commit) >= first

        assert regression.first_slower(commits, is_slower) == str(first)
        assert len(asked) <= count.bit_length()
        assert commits[-1] not in asked


def test_the_commit_is_named_that_made_an_operator_slower(
    regression: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def git(*arguments: str) -> str:
        command = [
            "git",
            "-C",
            str(tmp_path),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            *arguments,
        ]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "python").mkdir()
    (tmp_path / "dev").mkdir()
    commits = []
    for number in range(6):
        (tmp_path / "python" / "speed").write_text(f"{number}")
        git("add", ".")
        git("commit", "--quiet", "-m", f"Number {number}")
        commits.append(git("rev-parse", "HEAD"))
    (tmp_path / "dev/regression.toml").write_text(f'commit = "{commits[0]}"')
    (tmp_path / "notes").touch()
    git("add", ".")
    git("commit", "--quiet", "-m", "Measures nothing")
    head = git("rev-parse", "HEAD")

    def measured(before: str, after: str, workload: str, pairs: int) -> list[float]:
        assert before == commits[0]
        is_slow = workload == "join-warm" and after in {*commits[3:], head}
        return [0.9 if is_slow else 1.0] * pairs

    monkeypatch.setattr(regression, "REPOSITORY", tmp_path)
    monkeypatch.setattr(regression, "BUILDS", tmp_path / "build")
    monkeypatch.setattr(regression, "measured", measured)
    assert regression.main(["--workloads", "sync-join", "--pairs", "2"]) == 0
    assert regression.main(["--pairs", "2"]) == 1
    out = capsys.readouterr().out
    assert f"FAILED join-warm: 0.900 of the speed, by CPU. It begins with {commits[3][:7]}" in out
    assert out.count("FAILED") == 1
    assert "Number 3" in out
