"""Writes the numbers of README.md, docs/explanation/speed.md and its chart from benchmarks/results.

    python benchmarks/claims.py            # rewrites the generated blocks and the chart
    python benchmarks/claims.py --check    # exit code 1 if a block differs from its result file

A block stands between `<!-- numbers:NAME -->` and `<!-- /numbers -->`. Speed-up, CPU per row, versions,
commit and machine of a table come from one result file. A result is refused if more than `_MOST_COMMITS`
commits have changed the measured code since: measure again (benchmarks/README.md has each file's command).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bar_chart import bar_chart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_REPOSITORY = Path(__file__).resolve().parents[1]
_RESULTS = Path(__file__).resolve().with_name("results")
_DOCUMENTS = ("README.md", "docs/explanation/speed.md")
# What the benchmarks measure.
_MEASURED = ("jvm/src/main", "python/tailrace")
_MOST_COMMITS = 150
_BLOCK = re.compile(r"(<!-- numbers:([a-z-]+) -->\n).*?(<!-- /numbers -->)", re.DOTALL)
_LINK = re.compile(r"\(\.\./\.\./benchmarks/results/([\w.-]+)\.txt\)")
_ROW_BYTES = 124  # of the feature-label workload, in memory


class ClaimError(RuntimeError):
    """A result can't be quoted. The message says which one, why, and what to do."""


@dataclass(frozen=True)
class Result:
    """One file of benchmarks/results.

    Attributes:
        name: without its suffix.
        header: `date`, `cpu`, `tailrace` and so on, as the file's first lines name them.
        runs: the raw numbers, one mapping per run.
    """

    name: str
    header: Mapping[str, str]
    runs: tuple[Mapping[str, Any], ...]

    @property
    def commit(self) -> str | None:
        """The commit that was measured; None if the file doesn't say."""
        found = re.search(r"\b[0-9a-f]{7,40}\b", self.header.get("tailrace", ""))
        return found and found.group()

    def middle(self, engine: str, number: Callable[[Mapping[str, Any]], float]) -> float:
        """The median over the runs of an engine."""
        values = [number(run) for run in self.runs if run["engine"] == engine]
        if not values:
            raise ClaimError(f"results/{self.name}.txt has no run of {engine}: measure it again.")
        return median(values)

    def rate(self, engine: str) -> float:
        """Rows per second."""
        return self.middle(engine, lambda run: run["rows"] / run["seconds"])

    def cpu(self, engine: str) -> float:
        """Microseconds of CPU per row."""
        return self.middle(engine, lambda run: run["cpu_seconds"] / run["rows"] * 1e6)

    def version(self, of: str) -> str:
        """The version of Spark or Flink that ran."""
        return next(str(run["versions"][of]) for run in self.runs if of in run.get("versions", {}))


def read(name: str) -> Result:
    """Reads a result file.

    Args:
        name: without its suffix.

    Raises:
        ClaimError: there is no such file.
    """
    path = _RESULTS / f"{name}.txt"
    if not path.is_file():
        raise ClaimError(f"benchmarks/results/{name}.txt is missing: run its command (benchmarks/README.md).")
    header: dict[str, str] = {}
    runs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        key = re.match(r"(date|cpu|memory|kernel|tailrace|parameters|spark|flink)\s{2,}(.*)", line)
        if key:
            header.setdefault(key[1], key[2])
        elif line.startswith("{"):
            runs.append(json.loads(line))
    return Result(name, header, tuple(runs))


def age(commit: str) -> int:
    """The number of commits since then that have changed what the benchmarks measure.

    Raises:
        ClaimError: the history has no such commit.
    """
    command = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", *_MEASURED]
    done = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClaimError(f"commit {commit} is not in the history of this clone: measure again.")
    return int(done.stdout)


def _current(name: str) -> Result:
    result = read(name)
    if result.commit is None:
        raise ClaimError(f"benchmarks/results/{name}.txt names no commit: measure again.")
    commits = age(result.commit)
    if commits > _MOST_COMMITS:
        raise ClaimError(
            f"benchmarks/results/{name}.txt was measured at {result.commit}, {commits} commits to the "
            f"measured code ago; at most {_MOST_COMMITS} are quoted. Measure again (benchmarks/README.md)."
        )
    return result


_ENGINES = {
    "tailrace": "Tailrace",
    "spark-format-4": "Spark {spark}: stream-stream join (state format 4) and `collect_list`",
    "flink-heap": "Flink {flink}: a hand-written function, state on the heap",
    "flink-rocksdb": "Flink {flink}: the same function, state in RocksDB",
}


def _compared() -> list[str]:
    """README's table: Tailrace beside its peers, all in one run."""
    result = _current("peers-2600000")
    lines = [
        "| | speed-up of Tailrace | rows/s | CPU per row | write amplification |",
        "|---|---|---|---|---|",
    ]
    ours = result.rate("tailrace")
    for engine, words in _ENGINES.items():
        rate = result.rate(engine)
        written = ""
        if any(run["engine"] == engine and "written_bytes" in run for run in result.runs):
            bytes_per_row = result.middle(engine, lambda run: run["written_bytes"] / run["rows"])
            written = f"{bytes_per_row / _ROW_BYTES:.1f}"
        name = words.format(spark=result.version("spark"), flink=result.version("flink"))
        up = f"{ours / rate:.1f}x" if engine != "tailrace" else ""
        lines.append(f"| {name} | {up} | {rate:,.0f} | {result.cpu(engine):.1f} us | {written} |")
    rounds = len([run for run in result.runs if run["engine"] == "tailrace"])
    how = "one run each" if rounds == 1 else f"medians of {rounds} interleaved runs"
    day, cpu = result.header["date"].split()[0], result.header["cpu"]
    return [*lines, "", f"{how.capitalize()}, cold JVMs, {cpu}, {day}, commit `{result.commit}`."]


_BARS = {
    "tailrace": "Tailrace",
    "spark-format-4": "Spark {spark}, join and collect_list",
    "flink-heap": "Flink {flink}, a function by hand, heap",
    "flink-rocksdb": "Flink {flink}, the same function, RocksDB",
}


def _speed_chart() -> str:
    result = _current("peers-2600000")
    versions = {of: result.version(of) for of in ("spark", "flink")}
    bars = [(words.format(**versions), result.rate(engine)) for engine, words in _BARS.items()]
    return bar_chart("The label join: rows per second of four engines", "rows per second", bars)


def _measured() -> list[str]:
    """When and where each result that the page quotes was measured."""
    page = (_REPOSITORY / "docs/explanation/speed.md").read_text(encoding="utf-8")
    lines = ["| result | measured | commit | machine |", "|---|---|---|---|"]
    for name in sorted(set(_LINK.findall(page))):
        result = read(name)
        day = result.header.get("date", "").split(" ")[0]
        cpu = result.header.get("cpu", "not recorded")
        commit = f"`{result.commit}`" if result.commit else "not recorded"
        lines.append(f"| [{name}](../../benchmarks/results/{name}.txt) | {day} | {commit} | {cpu} |")
    return lines


_PICTURES: Mapping[str, Callable[[], str]] = {"docs/images/speed.svg": _speed_chart}
_BLOCKS: Mapping[str, Callable[[], list[str]]] = {"peers": _compared, "measured": _measured}


def generated(text: str) -> str:
    """A document with its blocks written anew.

    Args:
        text: the document.

    Raises:
        ClaimError: a block's result is missing, or too old to be quoted, or nothing writes the block.
    """

    def block(found: re.Match[str]) -> str:
        if found[2] not in _BLOCKS:
            raise ClaimError(
                f"nothing writes the block {found[2]}: benchmarks/claims.py has {', '.join(_BLOCKS)}."
            )
        return found[1] + "\n".join(_BLOCKS[found[2]]()) + "\n" + found[3]

    return _BLOCK.sub(block, text)


def main(arguments: list[str]) -> int:
    """Writes the documents' blocks, or checks them. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a block differs")
    check = parser.parse_args(arguments).check
    differ = []
    try:
        for name in (*_DOCUMENTS, *_PICTURES):
            document = _REPOSITORY / name
            text = document.read_text(encoding="utf-8") if document.exists() else ""
            new = _PICTURES[name]() if name in _PICTURES else generated(text)
            if new != text:
                differ.append(name)
                if not check:
                    document.write_text(new, encoding="utf-8")
    except ClaimError as error:
        print(f"claims: {error}", file=sys.stderr)
        return 1
    for name in differ:
        print(f"{name}: {'differs from the results; run benchmarks/claims.py' if check else 'written'}")
    return int(check and bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
