"""Which file of the server may import which: downwards alone, and each package from outside in one place."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tailrace.server

_DIRECTORY = Path(tailrace.server.__file__).parent

# The order of `tailrace.server`'s docstring. Files of one layer may import each other, in no circle.
_LAYERS = (
    ("run",),
    ("page", "sections", "choice", "charts", "metrics", "health"),
    ("api", "parsing", "guard", "tokens", "connections", "prefix", "logs"),
    ("views", "hostpages", "consequences"),
    ("worker", "reading"),
    ("ledger", "apart"),
    ("intake", "identity", "decisions", "answering", "room"),
    ("store", "loading", "records", "opening", "sqlite", "postgresql", "schema", "database"),
    ("journal",),
    ("state", "reporter", "hosts", "counted"),
    ("answers", "protocol"),
    ("topology", "rules", "names", "times", "reporters"),
)
# The client of `tailrace watermarks` must do without the server's packages.
_ASKER = ("overview", "failover")

_OUTSIDE = {
    "fastapi": {"run", "api", "parsing", "metrics", "health", "page"},
    "jinja2": {"page"},
    "prometheus_client": {"metrics"},
    "starlette": {"guard", "logs", "page", "prefix"},
    "uvicorn": {"run", "connections"},
    "h11": {"connections"},
    "pydantic": {"protocol", "answers", "api", "parsing"},
    "numpy": {"hostpages", "hosts", "counted", "rules"},
    "sqlite3": {"sqlite"},
    "psycopg": {"postgresql"},
    "pyspark": set[str](),
    "py4j": set[str](),
}


def _imports(file: str) -> set[str]:
    """Full names of the modules that a file imports anywhere, those for types alone too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((_DIRECTORY / f"{file}.py").read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            module = str(node.module)
            found.add(module)
            if module == "tailrace.server":
                found.update(f"{module}.{alias.name}" for alias in node.names)
    return found


_IMPORTS = {path.stem: _imports(path.stem) for path in _DIRECTORY.glob("*.py") if path.stem != "__init__"}
_OF_OURS = {
    file: {name.removeprefix("tailrace.server.") for name in names if name.startswith("tailrace.server.")}
    for file, names in _IMPORTS.items()
}


def test_every_file_has_a_layer() -> None:
    assert {file for layer in (*_LAYERS, _ASKER) for file in layer} == set(_IMPORTS)


@pytest.mark.parametrize("layer", range(len(_LAYERS)), ids=lambda i: "-".join(_LAYERS[i]))
def test_a_layer_imports_itself_and_those_below(layer: int) -> None:
    allowed = {file for below in _LAYERS[layer:] for file in below}
    assert {file: _OF_OURS[file] - allowed for file in _LAYERS[layer] if _OF_OURS[file] - allowed} == {}


def test_no_files_import_each_other_in_a_circle() -> None:
    TopologicalSorter(_OF_OURS).prepare()


def test_the_asker_needs_nothing_of_the_server_but_words_and_times() -> None:
    assert _OF_OURS["overview"] == {"times", "failover", "reporters"}
    assert _OF_OURS["reporters"] == {"names"}
    assert not _OF_OURS["times"] | _OF_OURS["failover"] | _OF_OURS["names"]


@pytest.mark.parametrize("package", _OUTSIDE)
def test_a_package_from_outside_is_used_in_its_place(package: str) -> None:
    users = {file for file, names in _IMPORTS.items() if any(name.split(".")[0] == package for name in names)}
    assert users == _OUTSIDE[package]


def test_only_errors_tables_and_the_version_of_the_package_are_used() -> None:
    used = {n for names in _IMPORTS.values() for n in names if n.split(".")[0] == "tailrace"}
    assert {n for n in used if not n.startswith("tailrace.server")} == {
        "tailrace.errors",
        "tailrace._installation.extras",
        "tailrace.commands.terminal",
        "tailrace._version",
    }
