"""Which public names a run of the tests has used: `pytest --parity FILE` writes them.

Public functions, and methods of public classes, are wrapped where users find them. A name counts if its call
has come back, in a test that passes. `parity_table.py` makes a table of such files.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import tailrace
import tailrace.sizing
import tailrace.testing
from modes import CONNECT, MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What `spark.read.format` takes: no name of Python's.
FORMATS = ("tailrace-progress", "tailrace-state")
# Names that nobody calls. TailraceError is raised as one of its kinds.
_VALUES = {"Reason", "TailraceError", "__version__"}


def _found(module: Any) -> Iterator[tuple[str, Any, str, Any]]:
    """The public names of a module: as users write them; owner, attribute and value of each."""
    package = module.__name__
    for name in sorted(set(module.__all__) - _VALUES):
        value = getattr(module, name)
        if not inspect.isclass(value):
            yield f"{package}.{name}", module, name, value
            continue
        methods = [
            (at, what) for at, what in vars(value).items() if not at.startswith("_") and _is_called(what)
        ]
        if not methods:
            # An error, or a record: who makes one has it.
            yield f"{package}.{name}", value, "__init__", value.__init__
        for at, what in methods:
            yield f"{package}.{name}.{at}", value, at, what


def _is_called(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)


def _all() -> Iterator[tuple[str, Any, str, Any]]:
    yield from _found(tailrace)
    yield from _found(tailrace.testing)
    yield "tailrace.sizing.size", tailrace.sizing, "size", tailrace.sizing.size


def names() -> list[str]:
    """All public names, in the order of the table."""
    return [*(name for name, *_ in _all()), *(f'spark.read.format("{name}")' for name in FORMATS)]


class Recorder:
    """A plugin of pytest's. Wraps the names at once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._called: set[str] = set()
        self._used: set[str] = set()
        self._tests = 0
        for name, owner, at, value in list(_all()):
            self._wrap(name, owner, at, value)
        self._wrap_formats()

    def pytest_collection_finish(self) -> None:
        # The parameters of tests.
        self._used |= self._called

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._called.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._used.update(self._called)
            self._tests += 1

    def pytest_sessionfinish(self) -> None:
        spark = ".".join(pyspark.__version__.split(".")[:2])
        found = {"mode": MODE, "spark": spark, "tests": self._tests, "used": sorted(self._used)}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(found, indent=1) + "\n")

    def _wrap(self, name: str, owner: Any, at: str, value: Any) -> None:
        if isinstance(value, property):
            assert value.fget is not None
            setattr(owner, at, property(self._noting(name, value.fget), value.fset, doc=value.__doc__))
        elif isinstance(value, classmethod | staticmethod):
            setattr(owner, at, type(value)(self._noting(name, value.__func__)))
        else:
            noting = self._noting(name, value)
            setattr(owner, at, noting)
            if not inspect.isclass(owner):
                self._replace(value, noting)

    def _replace(self, value: Any, by: Any) -> None:
        """Where it is defined, for pickling, and where the tests' modules have it by name already."""
        package = Path(tailrace.__file__).parent
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            defines = module.__name__ == value.__module__
            if file and (defines or package not in Path(file).parents):
                for at, found in list(vars(module).items()):
                    if found is value:
                        setattr(module, at, by)

    def _wrap_formats(self) -> None:
        of = importlib.import_module(f"pyspark.sql.{'connect.' if CONNECT else ''}readwriter")
        reader: Any = of.DataFrameReader
        chosen = reader.format

        @functools.wraps(chosen)
        def noting(self: Any, source: str) -> Any:
            if source in FORMATS:
                recorder._called.add(f'spark.read.format("{source}")')
            return chosen(self, source)

        recorder = self
        reader.format = noting

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noting(*arguments: Any, **named: Any) -> Any:
            result = function(*arguments, **named)
            self._called.add(name)
            return result

        return noting
