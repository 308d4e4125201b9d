"""Measures the shape of the Scala sources, and fails if it has become worse.

    .venv/bin/python dev/shape.py                 figures, and what exceeds the limits
    .venv/bin/python dev/shape.py label state     the arrows inside these packages: FILE -> FILE(names)
    .venv/bin/python dev/shape.py --lower         lowers limits that are met with room to spare

A file A has an arrow to a file B if A names something that B defines at its top level: by an import, or
without one inside a package. Arrows must form no cycle, because files that need each other can't be read,
tested or moved alone. `shape.toml` has the limits, and the cycles that are still there.

    Fixpoint.scala    class FixpointExec(sizes: TableSizes)      -> TableSizes.scala
    TableSizes.scala  class SmallTables(rules: OpRules)          -> OpRules.scala
    OpRules.scala     plan.exists(_.isInstanceOf[FixpointExec])  -> Fixpoint.scala     a cycle of three files

Sources are read as text. A name behind a dot (`StoreKind.HeldLeft`), in a string or in a comment is no arrow.
"""

from __future__ import annotations

import re
import statistics
import sys
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REPOSITORY = Path(__file__).parent.parent
SOURCES = Path("jvm/src/main")
PAGE = Path("jvm/docs/architecture.md")
LIMITS = Path("dev/shape.toml")

_OURS = ("io.tailrace", "org.apache.spark.sql.tailrace")
_PLACES = (("scala/io/tailrace/", ""), ("scala/org/apache/spark/sql/tailrace/", "bridge/"))
_MODIFIERS = r"(?:(?:private|protected|sealed|final|abstract|case|implicit|lazy|override|private\[\w+\])\s+)*"
_DEFINED = re.compile(rf"^{_MODIFIERS}(?:class|trait|object|type|enum)\s+([A-Za-z_]\w*)", re.MULTILINE)
_OWN = re.compile(r"\b(?:class|object|trait|type|val|def|var)\s+([A-Z]\w*)")
_IMPORT = re.compile(r"^[ \t]*import\s+((?:[^{\n]|\{[^}]*\})+)", re.MULTILINE)
_IMPORTED = re.compile(r"([\w.`]+?)(?:\.(\{.*\}|_|\w+))?$", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """One file: its code without comments and strings, and what it defines for others."""

    name: str
    package: str
    code: str
    lines: int
    names: frozenset[str]


@dataclass(frozen=True)
class Limits:
    """What the sources must not exceed, and the cycles of files that are still there."""

    files: int
    lines_of_a_file: int
    one_user: int
    walks: Mapping[str, int]
    cycles: Sequence[frozenset[str]]


@dataclass
class Shape:
    """The sources, and the arrows between them with the names that make each."""

    sources: dict[str, Source]
    arrows: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    walks: dict[str, int] = field(default_factory=dict)

    @property
    def one_user(self) -> list[tuple[str, str]]:
        """Files that exactly one other file uses. Variants of a minor version of Spark are left out."""
        users: dict[str, set[str]] = defaultdict(set)
        for user, used in self.arrows.items():
            for one in used:
                users[one].add(user)
        return sorted(
            (name, next(iter(users[name])))
            for name in self.sources
            if len(users[name]) == 1 and not name.startswith("scala-spark")
        )

    @property
    def cycles(self) -> list[frozenset[str]]:
        """Groups of files of one package, or across packages, that can all reach each other."""
        found = components(self.sources, {name: set(used) for name, used in self.arrows.items()})
        return sorted(found, key=lambda cycle: (-len(cycle), sorted(cycle)))

    def largest(self) -> Source:
        """The longest file."""
        return max(self.sources.values(), key=lambda source: source.lines)


def without_comments(text: str) -> str:
    """Scala code without its comments. Line numbers stay."""
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    return re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*', lambda found: found[1] or "", text)


def without_strings(code: str) -> str:
    """Code whose strings have only their `${...}`."""
    inserted = re.compile(r"\$\{([^}]*)\}")

    def kept(found: re.Match[str]) -> str:
        return f'" {" ".join(inserted.findall(found[0]))} "'

    return re.sub(r'"(?:\\.|[^"\\\n])*"', kept, re.sub(r'""".*?"""', kept, code, flags=re.DOTALL))


def short(path: str) -> str:
    """`label/JoinWindow` for a file's path below the sources."""
    for lead, to in _PLACES:
        path = path.replace(lead, to)
    return path.replace("org/apache/spark/sql/tailrace/", "").removesuffix(".scala")


def read(root: Path) -> dict[str, Source]:
    """All sources below a folder, by their short names."""
    found = {}
    for path in sorted(root.rglob("*.scala")):
        text = path.read_text(encoding="utf-8")
        code = without_comments(text)
        package = ".".join(re.findall(r"^package\s+([\w.]+)\s*$", code, re.MULTILINE))
        name = short(path.relative_to(root).as_posix())
        names = frozenset(_DEFINED.findall(code))
        found[name] = Source(name, package, without_strings(code), text.count("\n"), names)
    return found


class Arrows:
    """Finds the arrows of each file."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        self._defined: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for source in sources.values():
            for name in source.names:
                self._defined[source.package][name].append(source.name)

    def all(self) -> dict[str, dict[str, set[str]]]:
        """For each file the files that it uses, with the names."""
        return {name: self._of(source) for name, source in self._sources.items()}

    def _of(self, source: Source) -> dict[str, set[str]]:
        used: dict[str, set[str]] = defaultdict(set)
        body = _IMPORT.sub("", re.sub(r"^package .*$", "", source.code, flags=re.MULTILINE))
        words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", body))
        hidden = set(_OWN.findall(body))
        for imported in _IMPORT.findall(source.code):
            for part in re.split(r",(?![^{]*\})", imported):
                path = part.strip()
                if path.startswith(_OURS):
                    for package, name in self._named(path):
                        if name in words or name in path:
                            self._add(used, source, package, name)
                elif path.split(".")[0] in self._defined[source.package]:
                    # `import MatchPolicy._` inside a class.
                    self._add(used, source, source.package, path.split(".")[0])
                else:
                    hidden |= set(re.findall(r"\b([A-Z]\w*)\b", path))
        for name in self._defined[source.package].keys() & words - hidden:
            self._add(used, source, source.package, name)
        return dict(used)

    def _add(self, used: dict[str, set[str]], source: Source, package: str, name: str) -> None:
        for target in self._defined[package].get(name, []):
            if target != source.name:
                used[target].add(name)

    def _named(self, path: str) -> Iterator[tuple[str, str]]:
        """The packages and names that an import may mean."""
        found = _IMPORTED.match(path)
        if not found:
            return
        prefix, last = found[1], found[2]
        chosen = (
            [one.split("=>")[0].strip() for one in last[1:-1].split(",")]
            if last and last[0] == "{"
            else [last]
        )
        for one in chosen:
            segments = (prefix if one in ("_", None) else f"{prefix}.{one}").split(".")
            for length in range(len(segments), 0, -1):
                package = ".".join(segments[:length])
                if package in self._defined:
                    names = segments[length : length + 1] or (
                        list(self._defined[package]) if one == "_" else []
                    )
                    for name in names:
                        yield package, name
                    break


def components(nodes: Iterable[str], to: Mapping[str, set[str]]) -> list[frozenset[str]]:
    """Tarjan's strongly connected components of two nodes or more."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(to.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            part = frozenset(stack[at:])
            del stack[at:]
            if len(part) > 1:
                found.append(part)

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10000))
    for node in nodes:
        if node not in index:
            visit(node)
    return found


def walks(page: str) -> dict[str, int]:
    """The number of Scala files that each section of the architecture page names."""
    sections = re.split(r"^#{2,3} ", page, flags=re.MULTILINE)[1:]
    return {text.splitlines()[0]: len(set(re.findall(r"`([a-z]+/\w+\.scala)`", text))) for text in sections}


def measure(repository: Path) -> Shape:
    """The shape of a repository's sources."""
    sources = read(repository / SOURCES)
    return Shape(sources, Arrows(sources).all(), walks((repository / PAGE).read_text(encoding="utf-8")))


def limits(repository: Path) -> Limits:
    """The limits of a repository."""
    known = tomllib.loads((repository / LIMITS).read_text(encoding="utf-8"))
    cycles = [frozenset(cycle["files"]) for cycle in known.get("cycle", [])]
    return Limits(known["files"], known["lines_of_a_file"], known["one_user"], known["walks"], cycles)


def faults(shape: Shape, most: Limits) -> list[str]:
    """What is worse than the limits say, and cycles that have been cured and are listed still."""
    found = []
    if len(shape.sources) > most.files:
        found.append(f"{len(shape.sources)} files, at most {most.files}: merge two that are one thought")
    found += [
        f"{source.name} has {source.lines} lines, at most {most.lines_of_a_file}: split it by thought"
        for source in shape.sources.values()
        if source.lines > most.lines_of_a_file
    ]
    if len(shape.one_user) > most.one_user:
        users = "; ".join(f"{name} <- {user}" for name, user in shape.one_user)
        found.append(f"{len(shape.one_user)} files have exactly one user, at most {most.one_user}: {users}")
    found += [
        f"the walk '{title}' of {PAGE} leads through {shape.walks.get(title, 0)} files, at most {count}"
        for title, count in most.walks.items()
        if not 0 < shape.walks.get(title, 0) <= count
    ]
    now = shape.cycles
    found += [
        f"files form a cycle: {' '.join(sorted(cycle))}"
        for cycle in now
        if not any(cycle <= known for known in most.cycles)
    ]
    cured = sorted(set().union(*most.cycles) - set().union(*now))
    if cured:
        found.append(f"no longer in a cycle, take them out of {LIMITS} (--lower): {' '.join(cured)}")
    return found


def lowered(shape: Shape, most: Limits) -> str:
    """The text of the limits, each as low as the sources allow. None rises."""
    by_walk = {title: min(count, shape.walks.get(title, count)) for title, count in most.walks.items()}
    known = [cycle for cycle in shape.cycles if any(cycle <= one for one in most.cycles)]
    lines = [
        "# The limits of dev/shape.py. `dev/shape.py --lower` lowers those that are met with room to spare.",
        "# Raising one by hand is a decision: say why in the commit.",
        f"files = {min(len(shape.sources), most.files)}",
        f"lines_of_a_file = {most.lines_of_a_file}",
        "# Files that exactly one other file uses.",
        f"one_user = {min(len(shape.one_user), most.one_user)}",
        "",
        "# Scala files on the way of a row, by the section of jvm/docs/architecture.md that follows it.",
        "[walks]",
        *(f'"{title}" = {count}' for title, count in by_walk.items()),
    ]
    for cycle in known:
        lines += ["", "[[cycle]]", "files = [", *(f'    "{name}",' for name in sorted(cycle)), "]"]
    return "\n".join(lines) + "\n"


def figures(shape: Shape, most: Limits) -> str:
    """A line of totals, then a line for each package."""
    sources = shape.sources.values()
    one_user = Counter(shape.sources[name].package for name, _ in shape.one_user)
    files = Counter(source.package for source in sources)
    size = Counter[str]()
    for source in sources:
        size[source.package] += source.lines
    cycles = shape.cycles
    totals = {
        "files": len(shape.sources),
        "lines": size.total(),
        "median": int(statistics.median(source.lines for source in sources)),
        "longest": shape.largest().lines,
        "one_user": one_user.total(),
        "cycles": len(cycles),
        "files_in_cycles": sum(map(len, cycles)),
    }
    rows = [
        f"{package.removeprefix('io.tailrace.'):<30} {files[package]:5} {lines:6} {one_user[package]:8}"
        for package, lines in size.most_common()
    ]
    return "\n".join(
        [
            " ".join(f"{name}={value}" for name, value in totals.items()),
            f"{'package':<30} files  lines one-user",
            *rows,
            *(f"cycle of {len(cycle)}: {' '.join(sorted(cycle))}" for cycle in cycles),
            *(f"one user: {name} <- {user}" for name, user in shape.one_user),
            *(f"walk: {title}: {count} files" for title, count in shape.walks.items() if title in most.walks),
        ]
    )


def inside(shape: Shape, folder: str) -> Iterator[str]:
    """The arrows between the files of a package."""
    for name in shape.sources:
        if name.startswith(f"{folder}/"):
            near = {
                used: names for used, names in shape.arrows[name].items() if used.startswith(f"{folder}/")
            }
            texts = (f"{used.split('/')[-1]}({','.join(sorted(names)[:3])})" for used, names in near.items())
            yield f"{name.split('/')[-1]} -> {' '.join(texts)}"


def main(arguments: Sequence[str], repository: Path = REPOSITORY) -> int:
    """Returns 1 if a limit is exceeded."""
    shape = measure(repository)
    most = limits(repository)
    if "--lower" in arguments:
        (repository / LIMITS).write_text(lowered(shape, most), encoding="utf-8")
        most = limits(repository)
    elif arguments:
        for folder in arguments:
            print(*inside(shape, folder), sep="\n")
        return 0
    else:
        print(figures(shape, most))
    found = faults(shape, most)
    for fault in found:
        print(f"FAILED {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
