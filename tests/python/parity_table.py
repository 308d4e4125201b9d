"""The table of public names by mode of the session and version of Spark, of what runs of the tests have used.

pytest --parity=tests/parity/classic-4.2.json
TAILRACE_MODE=connect pytest --parity=tests/parity/connect-4.2.json
TAILRACE_SPARK=4.3 pytest --parity=tests/parity/classic-4.3.json -m contract
TAILRACE_SPARK=4.3 pytest --parity=tests/parity/classic-4.3-without-session.json tests/python/test_errors.py \
    tests/python/test_jars.py tests/python/test_size*.py tests/python/test_watermark_server_failures.py
python tests/python/parity_table.py                           writes docs/reference/parity.md
python tests/python/parity_table.py build/connect.json        fails if that run has left out a public name
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from parity import names

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "tests/parity"
PAGE = ROOT / "docs/reference/parity.md"

# Of names that no test uses in a mode.
REASONS: dict[tuple[str, str], str] = {
    ("connect", "tailrace.TailraceMemoryError"): (
        "raised in tests of processes with little memory, which are the JVM's and those of classic sessions"
    ),
    (
        "connect",
        "tailrace.TailraceServerError",
    ): "of the watermark server and its commands: no session takes part",
    ("connect", "tailrace.TailraceVersionError"): (
        "tests of a client with another version run in processes of their own (`test_connect.py`)"
    ),
    ("connect", "tailrace.sizing.size"): "it calculates: no session takes part",
}
_TITLES = {"classic": "classic", "connect": "Connect"}


class Run(NamedTuple):
    """One run of the tests."""

    spark: str
    mode: str
    tests: int
    used: frozenset[str]

    @classmethod
    def of(cls, file: Path) -> Run:
        found: dict[str, Any] = json.loads(file.read_text())
        return cls(found["spark"], found["mode"], found["tests"], frozenset(found["used"]))

    def and_(self, other: Run) -> Run:
        """Both, of one mode and one version of Spark: a run may be in parts."""
        return self._replace(tests=self.tests + other.tests, used=self.used | other.used)

    def left_out(self) -> list[str]:
        """The names that it should have used, and hasn't."""
        return [name for name in names() if name not in self.used and (self.mode, name) not in REASONS]


def runs() -> list[Run]:
    """Those whose results are kept."""
    found: dict[tuple[str, str], Run] = {}
    for run in map(Run.of, sorted(RESULTS.glob("*.json"))):
        key = run.spark, run.mode
        found[key] = found[key].and_(run) if key in found else run
    return [run for _, run in sorted(found.items())]


def page(of: list[Run]) -> str:
    """The page of some runs."""
    heads = [f"{_TITLES[run.mode]} {run.spark}" for run in of]
    lines = [
        "# Sessions and versions of Spark",
        "",
        "Which public names are used by tests that pass, in classic sessions and over Spark Connect.",
        "The same tests run in both modes, as many as use each name: CI's choice for Spark Connect. Classic",
        "runs have some more, of names that need no session. `tests/python/parity_table.py` makes this page.",
        "What runs on other versions of Spark is in [compatibility](compatibility.md).",
        "",
        f"| | {' | '.join(heads)} |",
        f"|---|{'---|' * len(of)}",
        *(_line(name, of) for name in names()),
        f"| tests that have passed | {' | '.join(str(run.tests) for run in of)} |",
    ]
    holes = [(mode, name) for mode, name in REASONS if any(run.mode == mode for run in of)]
    if holes:
        lines += ["", "What no test can show there:", ""]
        lines += [f"- `{name}`, {_TITLES[mode]}: {REASONS[mode, name]}" for mode, name in holes]
    return "\n".join(lines) + "\n"


def _line(name: str, of: list[Run]) -> str:
    def cell(run: Run) -> str:
        return "yes" if name in run.used else "see below" if (run.mode, name) in REASONS else "—"

    return f"| `{name}` | {' | '.join(map(cell, of))} |"


def main(files: list[str]) -> int:
    """Writes the page, or checks results.

    Args:
        files: the results to check; none: the page is written.
    """
    if not files:
        PAGE.write_text(page(runs()))
        return 0
    left_out = {file: Run.of(Path(file)).left_out() for file in files}
    for file, missing in left_out.items():
        print(f"{file}: {', '.join(missing) if missing else 'every public name is used'}")
    return 1 if any(left_out.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
