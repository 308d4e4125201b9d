"""The pages that are made of the program: error conditions, metrics, the command line.

They are written into `docs/reference` when the site is built, and Git ignores them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.commands import cli
from tailrace.commands.failures import DEBUG, EXIT_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[1]
_CONDITIONS = _ROOT / "jvm/src/main/resources/error/tailrace-error-conditions.json"
_METRICS = _ROOT / "jvm/src/main/resources/io/tailrace/monitor/metrics.json"
_REFERENCE = _ROOT / "docs/reference"
_SCREENSHOT = re.compile(r"<!-- screenshot:([a-z-]+) (.*?) -->", re.DOTALL)
_SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Source|Yields):\s*")


def setup(app: Sphinx) -> dict[str, bool]:
    """Writes the pages before Sphinx looks for them."""
    app.connect("builder-inited", lambda _: write())
    # Before napoleon reads the sections.
    app.connect("autodoc-process-docstring", _examples, priority=100)
    app.connect("doctree-read", _left_out_of_search)
    app.connect("source-read", _with_screenshots)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _with_screenshots(app: Sphinx, _: str, source: list[str]) -> None:
    """Puts a picture where a page has `<!-- screenshot:NAME what it shows -->`.

    The browser's tests have taken it of the program as it is, and none is in the repository. Without its file
    the page has no picture, unless TAILRACE_SCREENSHOTS is "required".
    """

    def picture(found: re.Match[str]) -> str:
        file = f"build/screenshots/{found[1]}.png"
        app.env.note_dependency(str(_ROOT / file))
        if (_ROOT / file).exists():
            return f"![{' '.join(found[2].split())}](/{file})"
        if os.environ.get("TAILRACE_SCREENSHOTS") == "required":
            raise FileNotFoundError(f"{file} is missing: test_screenshots.py and test_monitor.py take it.")
        return ""

    source[0] = _SCREENSHOT.sub(picture, source[0])


def _left_out_of_search(app: Sphinx, _: object) -> None:
    """Leaves out decisions, byte formats, specifications, benchmarks: users of the search look for guides."""
    page = app.env.docname
    if page.startswith(("jvm/", "benchmarks/")):
        app.env.metadata[page]["nosearch"] = "true"


def _examples(*event: object) -> None:
    """Marks indented examples of a docstring, in front of its sections, as code."""
    lines = event[-1]
    assert isinstance(lines, list)  # noqa: S101  Sphinx gives the docstring's lines
    at = 1
    while at < len(lines) and not _SECTION.fullmatch(lines[at]):
        if lines[at].startswith("    ") and not lines[at - 1].strip():
            before = next((line for line in reversed(lines[:at]) if line.strip()), "")
            if not before.startswith(" "):
                lines[at:at] = ["::", ""]
                at += 2
        at += 1


def write() -> None:
    """Writes all pages that are generated."""
    conditions = json.loads(_CONDITIONS.read_text())
    _put(_REFERENCE / "errors/index.md", _index(conditions))
    for name, condition in conditions.items():
        _put(_REFERENCE / f"errors/{name}.md", _condition(name, condition))
    _put(_REFERENCE / "command-line.md", _command_line())
    _put(_REFERENCE / "metrics.md", _metrics(json.loads(_METRICS.read_text())))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Sphinx reads a page again whose time is newer.
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _index(conditions: dict[str, dict[str, object]]) -> str:
    lines = [
        "# Error conditions",
        "",
        "An error's condition is in its text, `[TAILRACE_...]`. In Python it is `error.condition`, and its",
        "parameters are `error.parameters`. From Scala they are `getCondition` and `getMessageParameters`.",
        "A query that has begun ends with Spark's exception. Its `getCondition` gives `STREAM_FAILED`, and",
        "its cause has the condition.",
        "",
        "```{toctree}",
        ":maxdepth: 1",
        "",
        *sorted(conditions),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _condition(name: str, condition: dict[str, object]) -> str:
    message = condition["message"]
    assert isinstance(message, list)  # noqa: S101  a page without it would be empty
    what, *cure = [_parameters(line) for line in message]
    lines = [f"# {name}", "", "**What is wrong.** " + what, ""]
    if cure:
        lines += ["**What to do.** " + " ".join(cure), ""]
    lines += [f"SQL state `{condition['sqlState']}`."]
    return "\n".join(lines) + "\n"


def _parameters(text: str) -> str:
    # What Spark fills in would be an element of HTML.
    return re.sub(r"<(\w+)>", r"*\1*", text.replace("*", r"\*"))


def _metrics(groups: list[dict[str, Any]]) -> str:
    lines = [
        "# Metrics",
        "",
        "Each number is in the query's progress, by the first name. [Prometheus](../guides/monitor.md) has",
        "it by the second one: counts (`_total`) summed up over the micro-batches, times in seconds, with",
        "the labels `query` and `query_id` and those that are named here. Spark's UI shows the operators'.",
        "All of them are sums over the partitions.",
    ]
    for group in groups:
        labels = ", ".join(f"`{label}`" for label in group.get("labels", []))
        lines += [
            "",
            f"## {group['title']}",
            "",
            f"In {group['where']}{f'; labels {labels}' if labels else ''}.",
            "",
        ]
        lines += ["| in the progress | for Prometheus | |", "|---|---|---|"]
        for metric in group["metrics"]:
            more = "".join(f" `{label}`" for label in metric.get("labels", []))
            field = "others" if metric["field"] == "*" else f"`{metric['field']}`"
            lines.append(f"| {field} | `{metric['series']}`{more} | {metric['help']} |")
    return "\n".join(lines) + "\n"


def _command_line() -> str:
    lines = ["# The command line", "", "A command ends with one of these exit codes:", ""]
    lines += ["| exit code | |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    lines += [
        "",
        f"An error is one line on the standard error, `tailrace: ...`. For a report of a defect, `{DEBUG}=1`",
        "shows the traceback instead.",
        "",
    ]
    for name, parser in _commands("tailrace", cli.command_line()):
        help_text = parser.format_help().rstrip()
        lines += [f"## `{name}`", "", "```text", help_text, "```", ""]
    return "\n".join(lines)


def _commands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:  # noqa: SLF001  argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for command, child in action.choices.items():
                yield from _commands(f"{name} {command}", child)
