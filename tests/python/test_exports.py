from __future__ import annotations

import importlib.metadata
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tailrace
from tailrace import errors

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    RunPython = Callable[..., subprocess.CompletedProcess[str]]


def test_all_is_what_the_documentation_names() -> None:
    assert set(tailrace.__all__) == {
        "Attribution",
        "Backfill",
        "Examples",
        "Preflight",
        "Reason",
        "Reconciliation",
        "TailraceError",
        "TailraceJoinError",
        "TailraceMemoryError",
        "TailraceRecursionError",
        "TailraceReplayError",
        "TailraceServerError",
        "TailraceSessionError",
        "TailraceStateError",
        "TailraceTableError",
        "TailraceVersionError",
        "TailraceWatermarkError",
        "__version__",
        "accurate_watermark",
        "as_of",
        "backfill",
        "configure",
        "erase",
        "examples",
        "export_state",
        "filter_replays",
        "first_touch",
        "import_state",
        "jar_path",
        "join",
        "label_maturity",
        "last_touch",
        "linear",
        "merge_maturity",
        "merge_stream_metadata",
        "parse_stream_metadata",
        "position",
        "preflight",
        "producer_id",
        "reconcile",
        "recursively",
        "rescale",
        "source_partition",
        "stamp_watermark",
        "stamped_watermark",
        "stream_metadata",
        "sync_join",
        "time_decay",
        "window_report",
        "write_table",
        "write_windows",
    }


@pytest.mark.parametrize("name", [name for name in tailrace.__all__ if name not in {"__version__", "Reason"}])
def test_every_export_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(getattr(tailrace, name))


@pytest.mark.parametrize(
    "function",
    [
        getattr(tailrace, name)
        for name in tailrace.__all__
        if inspect.isfunction(getattr(tailrace, name)) and name != "jar_path"
    ],
)
def test_docstrings_name_every_argument(function: object) -> None:
    documented = inspect.getdoc(function)
    assert documented is not None
    for argument in inspect.signature(function).parameters:  # type: ignore[arg-type]  # both are functions
        assert f"{argument}: " in documented


def test_every_error_has_the_one_root() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert len(kinds) > 1
    assert all(issubclass(kind, tailrace.TailraceError) for kind in kinds)


def test_the_package_is_typed() -> None:
    assert Path(tailrace.__file__).with_name("py.typed").is_file()


def test_only_two_files_touch_py4j() -> None:
    """And one names it where it is missing."""
    package = Path(tailrace.__file__).parent
    private = ("py4j", "._jvm", "._jdf", "._gateway", "._jsparkSession", "._jsc")

    def code(file: Path) -> str:
        return re.sub(r'"""[\s\S]*?"""|#.*', "", file.read_text())

    guilty = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if any(name in code(file) for name in private)
    }
    assert guilty == {"commands/failures.py", "_bridge/jvm.py", "_bridge/jvm_failures.py"}


_EXTRAS = (
    *("fastapi", "h11", "jinja2", "markupsafe", "matplotlib", "numpy"),
    *("prometheus_client", "psycopg", "pydantic", "starlette", "uvicorn"),
)


def test_importing_tailrace_loads_nothing_of_an_extra(run_python: RunPython) -> None:
    done = run_python(
        "-c",
        # PySpark 4.1 loads numpy itself.
        "import sys, pyspark.sql\nof_spark = {*sys.modules}\nimport tailrace, tailrace.commands.cli\n"
        f"print([name for name in {_EXTRAS} if name in {{*sys.modules}} - of_spark])",
    )
    assert done.stdout == "[]\n", done.stderr


def test_the_package_works_without_its_extras(run_python: RunPython) -> None:
    code = f"""import sys
sys.modules.update(dict.fromkeys({_EXTRAS}))
import tailrace.commands.doctor, tailrace.commands.inspection, tailrace.commands.waiting
import tailrace.kafka, tailrace.testing
import tailrace.demo.watermark, tailrace.server.overview, tailrace.server.tokens"""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


def test_an_installation_needs_pyspark_py4j_and_pyarrow_alone() -> None:
    needed = [one for one in importlib.metadata.requires("tailrace") or [] if "extra ==" not in one]
    assert [re.split("[!>=<]", one)[0] for one in needed] == ["py4j", "pyarrow", "pyspark"]
