#!/usr/bin/env python3
"""Compares the operators with those of a pinned commit, and finds the commit that has made one slower.

    .venv/bin/python dev/regression.py                        each workload, 9 pairs; an hour
    .venv/bin/python dev/regression.py --workloads join-warm --pairs 3

Both commits are checked out and built in build/regression. `benchmarks/before_after.py` runs them side by
side, and the CPU time of the JVMs is compared. An operator that is more than 2 % slower in the median of the
pairs is measured again, with twice as many. If it is slower still, the commits in between are bisected. Exit
code 1: something is slower. dev/regression.toml has the commit. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
BUILDS = REPOSITORY / "build" / "regression"
WORKLOADS = ("join-warm", "sync-join", "replays-warm", "recursion-warm")
_LEAST = 0.98
# Where what is measured can change.
_SOURCES = ("jvm/src", "python", "build.sbt", "project")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def checkout(commit: str) -> Path:
    """A commit's files, with its jar. It is built once."""
    folder = BUILDS / commit
    jars = folder / "python/tailrace/jars"
    if not list(jars.glob("*.jar")):
        if folder.exists():
            _git("worktree", "remove", "--force", str(folder))
        _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
        sbt = [sys.executable, "python/build_backend/sbt.py", "jvm/package"]
        subprocess.run(sbt, cwd=folder, check=True)
        jars.mkdir(parents=True, exist_ok=True)
        (jar,) = (folder / "jvm/target").glob("tailrace-*.jar")
        shutil.copy(jar, jars)
    return folder


def _remove_builds(keep: set[str]) -> None:
    for folder in BUILDS.glob("*"):
        if folder.name not in keep:
            _git("worktree", "remove", "--force", str(folder))


def measured(before: str, after: str, workload: str, pairs: int) -> list[float]:
    """The CPU time of the earlier commit in each pair, as a multiple of the later one's.

    `benchmarks/before_after.py` of the later one leaves its report in its folder.
    """
    folder = checkout(after)
    name = f"regression-{workload}"
    arguments = ["--before", str(checkout(before)), "--commit", before, "--workloads", workload]
    script = [sys.executable, "benchmarks/before_after.py", *arguments, "--runs", str(pairs), "--name", name]
    subprocess.run(script, cwd=folder, check=True)
    lines = (folder / f"benchmarks/results/{name}.txt").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(line) for line in lines if line.startswith("{")]
    sides = [[run["cpu_seconds"] for run in runs if run["side"] == side] for side in ("before", "after")]
    return [before / after for before, after in zip(*sides, strict=True)]


def slower(measure: Callable[[int], list[float]], pairs: int) -> float | None:
    """The speed as a multiple of before, if it is less. A verdict needs two measurements that agree.

    Args:
        measure: gives the ratios of so many pairs.
        pairs: of the first measurement; the second one has twice as many.
    """
    for count in (pairs, 2 * pairs):
        ratio = median(measure(count))
        print(f"{count} pairs: {ratio:.3f}", flush=True)
        if ratio >= _LEAST:
            return None
    return ratio


def first_slower(commits: Sequence[str], is_slower: Callable[[str], bool]) -> str:
    """The first of the commits that is slower, of which the last one is, by halving them.

    Args:
        commits: in their order; each is as slow as the one before it, or slower.
        is_slower: asked for commits but the last one.
    """
    fast, slow = -1, len(commits) - 1
    while slow - fast > 1:
        middle = (fast + slow) // 2
        if is_slower(commits[middle]):
            slow = middle
        else:
            fast = middle
    return commits[slow]


def _blamed(pinned: str, head: str, workload: str, pairs: int) -> str:
    commits = _git(
        "rev-list", "--first-parent", "--reverse", f"{pinned}..{head}", "--", *_SOURCES
    ).splitlines()

    def is_slower(commit: str) -> bool:
        return slower(partial(measured, pinned, commit, workload), pairs) is not None

    return _git("log", "-1", "--format=%h %s", first_slower([*commits, head], is_slower))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument("--pairs", type=int, default=9, help="of the first measurement (default: 9)")
    parser.add_argument("--before", help="a commit; otherwise that of dev/regression.toml")
    a = parser.parse_args(arguments)
    configured = tomllib.loads((REPOSITORY / "dev/regression.toml").read_text(encoding="utf-8"))
    pinned = _git("rev-parse", a.before or configured["commit"])
    head = _git("rev-parse", "HEAD")
    _remove_builds(keep={pinned, head})
    failed = False
    for workload in a.workloads:
        print(f"{workload}, {head[:8]} against {pinned[:8]}:", flush=True)
        ratio = slower(partial(measured, pinned, head, workload), a.pairs)
        if ratio is not None:
            failed = True
            blamed = _blamed(pinned, head, workload, a.pairs)
            print(f"FAILED {workload}: {ratio:.3f} of the speed, by CPU. It begins with {blamed}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
