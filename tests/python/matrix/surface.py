"""What the code shows to others: signatures, error conditions, metrics, the server's description."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

from api_requests import FULL, REPORTS
from tailrace.errors import from_condition
from tailrace.server.run import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_MODULES = (
    *("tailrace", "tailrace.options", "tailrace.attribution", "tailrace.errors", "tailrace.kafka"),
    *("tailrace.erasing", "tailrace.exchanging", "tailrace.rescaling", "tailrace.preflight"),
    "tailrace.reading",
    *("tailrace.testing", "tailrace.testing.plugin"),
)
_CONDITIONS = "jvm/src/main/resources/error/tailrace-error-conditions.json"
_METRICS = "jvm/src/main/resources/io/tailrace/monitor/metrics.json"
_SCALA_API = ("io.tailrace.api.Tailrace$", "io.tailrace.api.PythonApi$")
_SCALA_OPTIONS = (
    *("label.JoinOptions", "asof.AsOfOptions", "sync.SyncOptions", "replay.ReplayOptions"),
    *("watermark.WatermarkOptions", "windows.WindowOptions", "recursion.RecursionOptions"),
    *("examples.ExampleOptions", "examples.ExampleLabel", "examples.ExampleFeatures"),
    *("examples.ExampleAttribution", "examples.ExampleSample"),
)


def python_signatures() -> str:
    """Every public name of the Python package: functions, classes with their fields and methods, types."""
    lines: list[str] = []
    for name in _MODULES:
        module = importlib.import_module(name)
        names = getattr(module, "__all__", None) or [
            one
            for one, value in vars(module).items()
            if not one.startswith("_") and getattr(value, "__module__", name) == name and _is_ours(value)
        ]
        lines += [f"# {name}", *(line for one in sorted(names) for line in _shown(one, getattr(module, one)))]
    return "\n".join(lines) + "\n"


def _is_ours(value: object) -> bool:
    return not inspect.ismodule(value) and not isinstance(value, bool)


def _shown(name: str, value: Any) -> Iterator[str]:  # noqa: ANN401
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"class {name}({bases})"
        if dataclasses.is_dataclass(value):
            yield from (f"    {f.name}: {f.type}" for f in dataclasses.fields(value) if f.name[0] != "_")
        for method, function in sorted(vars(value).items()):
            if isinstance(function, property):
                yield f"    {method} -> {inspect.signature(function.fget).return_annotation}"  # type: ignore[arg-type]
            elif inspect.isfunction(function) and (method == "__init__" or not method.startswith("_")):
                yield f"    {method}{inspect.signature(function)}"
    elif inspect.isfunction(value):
        yield f"{name}{inspect.signature(value)}"
    elif name != "__version__":
        yield f"{name} = {value if not callable(value) else type(value).__name__}"


def scala_signatures(spark: SparkSession) -> str:
    """Every public method of the Scala API and of the entry for Python, and the options' fields."""
    jvm: Any = spark._jvm
    loader: Any = jvm.Thread.currentThread().getContextClassLoader()
    lines: list[str] = []
    for name in _SCALA_API:
        methods = [method.toGenericString() for method in loader.loadClass(name).getMethods()]
        ours = {re.sub(r"io\.tailrace\.api\.\w+\$?\.", "", one) for one in methods if " io.tailrace." in one}
        lines += [f"# {name}", *sorted(one for one in ours if "$default$" not in one and "$" not in one)]
    for name in _SCALA_OPTIONS:
        fields = loader.loadClass(f"io.tailrace.{name}").getDeclaredFields()
        kept = [one.toGenericString() for one in fields if one.getName() != "arguments"]
        lines += [f"# {name}", *(one for one in kept if " static " not in one)]
    return "\n".join(lines) + "\n"


def conditions(repository: Path) -> dict[str, Any]:
    """Every error condition: its SQLSTATE, its parameters, its class in Python."""
    known: dict[str, Any] = json.loads((repository / _CONDITIONS).read_text())
    return {
        name: {
            "sqlState": one.get("sqlState"),
            "parameters": sorted(set(re.findall(r"<(\w+)>", " ".join(one["message"])))),
            "class": type(from_condition(name, "")).__name__,
        }
        for name, one in sorted(known.items())
    }


def metrics(repository: Path) -> dict[str, list[str]]:
    """Every metric: the field of the progress, its kind, its name for Prometheus, its labels."""
    groups = json.loads((repository / _METRICS).read_text())
    return {
        group["of"]: [
            " ".join([m["field"], m["kind"], m["series"], *m.get("labels", [])]) for m in group["metrics"]
        ]
        for group in groups
    }


def server_description(directory: Path) -> dict[str, Any]:
    """The watermark server's OpenAPI, without its texts for people, and a report with its answer."""
    application = build(f"sqlite:///{directory / 'w.db'}", None)
    with TestClient(application, base_url="http://127.0.0.1") as client:
        described: dict[str, Any] = _without_texts(client.get("/openapi.json").json())
        answer = client.post(REPORTS, json=FULL).json()
    described["info"].pop("version")
    return {"api": described, "report": FULL, "answer": answer}


def _without_texts(value: Any) -> Any:  # noqa: ANN401 - it is JSON
    if isinstance(value, list):
        return [_without_texts(one) for one in value]
    if isinstance(value, dict):
        texts = {name for name in ("description", "summary") if isinstance(value.get(name), str)}
        return {name: _without_texts(one) for name, one in value.items() if name not in texts}
    return value
