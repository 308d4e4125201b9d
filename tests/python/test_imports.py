"""Which file of the package may import which: downwards alone, and in no circle. The top level is the facade.

commands.cli              all commands
demo, sizing              commands with packages of their own
commands, server          the server's own rules are in `test_watermark_server_imports.py`
testing                   for users' tests
kafka, reading, __init__
the top level             one file for each public call, or a few of one kind
_estimates, _reconciling  what `label_maturity` and `preflight` count, what `reconcile` compares
_definition               parts of a definition of `examples`
_bridge                   calls into the JVM, over py4j or Spark Connect
_installation             the jar, Java, Spark's version
errors, options, _version
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tailrace

_PACKAGE = Path(tailrace.__file__).parent
_FOUNDATION = {"errors", "options", "_version"}
# From below. A package has a place of its own, the files of the top level have one together.
_LAYERS = (
    _FOUNDATION,
    {"_installation"},
    {"_bridge"},
    {"_definition", "_estimates", "_reconciling", "facade"},
    {"", "kafka", "reading"},
    {"testing"},
    {"commands", "server"},
    {"demo", "sizing"},
    {"commands.cli"},
)
# A file more is likely a private part of one of them.
_MOST_AT_THE_TOP = 25


def _module(file: Path) -> str:
    parts = file.relative_to(_PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


_FILES = {_module(file): file for file in _PACKAGE.rglob("*.py")}


def _imported(file: Path, *, late: bool) -> set[str]:
    """Modules of the package that a file imports; `late`, also within functions and for types alone."""
    tree = ast.parse(file.read_text("utf-8"))
    nodes = ast.walk(tree) if late else iter(tree.body)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tailrace":
            name = str(node.module).partition(".")[2]
            for alias in node.names:
                whole = f"{name}.{alias.name}".strip(".")
                found.add(whole if whole in _FILES else name)
        elif isinstance(node, ast.Import):
            found |= {a.name.partition(".")[2] for a in node.names if a.name.split(".")[0] == "tailrace"}
    return found


def _place(module: str) -> str:
    if module == "commands.cli":
        return module
    first = module.partition(".")[0]
    is_file = (_PACKAGE / f"{first}.py").exists()
    return "facade" if is_file and first not in _FOUNDATION and first != "__main__" else first


def _height(module: str) -> int:
    return next(at for at, places in enumerate(_LAYERS) if _place(module) in places)


def test_imports_go_downwards() -> None:
    wrong = [
        f"{module} imports {other or 'tailrace'}"
        for module, file in _FILES.items()
        if module != "__main__"
        for other in _imported(file, late=False)
        if _height(other) > _height(module)
    ]
    assert wrong == []


def test_no_two_files_import_each_other() -> None:
    graph = {module: _imported(file, late=True) - {module, ""} for module, file in _FILES.items()}
    list(TopologicalSorter(graph).static_order())


def test_the_top_level_is_the_facade() -> None:
    files = {file.name for file in _PACKAGE.glob("*.py")}
    assert len(files) <= _MOST_AT_THE_TOP
    assert {name for name in files if name.startswith("_")} == {"__init__.py", "__main__.py", "_version.py"}
