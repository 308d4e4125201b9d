"""`tailrace reconcile`: landed windows against the batch answer, for a scheduler."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailrace.commands.argument_types import add_settings, heap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailrace.reconcile import Reconciliation

_DIFFERENT = 1
_EXAMPLE = """\
for instance:
  tailrace reconcile /data/examples pipeline.py:definition \\
      --table impressions=/data/served --table click=/data/clicks --html reconciliation.html

DEFINITION names a variable in a Python file or module: what tailrace.examples has defined, a batch
DataFrame, or a function that takes the Spark session and returns one of the two.

The exit code is 0 if nothing differs, or if each difference has a known reason; 1 if a difference has none,
if no window was compared, or if the command failed; 2 if the arguments are invalid.
"""


def fill(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace reconcile`.

    Args:
        command: its parser.
    """
    command.description = (
        "Compares complete windows that a pipeline has landed with the batch answer of the same definition. "
        "Works in a local Spark; on a cluster call tailrace.reconcile in a session of it."
    )
    command.epilog = _EXAMPLE
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("landed", metavar="LANDED", help="the folder or table of write_windows")
    command.add_argument("definition", metavar="DEFINITION", help="FILE.py:NAME or MODULE:NAME, see below")
    command.add_argument(
        "--table",
        type=_table,
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="Parquet files for `impressions`, a label or features of the definition",
    )
    command.add_argument(
        "--keys", type=_names, metavar="NAME,...", help="the columns that identify an example"
    )
    command.add_argument("--time", metavar="NAME", help="the column of the event time")
    command.add_argument("--on", type=_names, metavar="NAME,...", help="the key columns of late labels")
    command.add_argument("--labels", type=_names, metavar="NAME,...", help="the columns of labels")
    command.add_argument("--columns", type=_names, metavar="NAME,...", help="which columns to compare")
    command.add_argument(
        "--window", metavar="TIME", help="how long a window is (default: as they have landed)"
    )
    command.add_argument(
        "--offset", metavar="TIME", default="0 seconds", help="of the windows (default: none)"
    )
    command.add_argument("--since", metavar="TIME", help="windows from this time on")
    command.add_argument("--until", metavar="TIME", help="windows up to this time")
    command.add_argument(
        "--format", choices=("parquet", "delta", "iceberg"), default="parquet", help="of what has landed"
    )
    command.add_argument("--parquet", metavar="DIR", help="write windows, summary and differences there")
    command.add_argument("--html", metavar="FILE", help="write a page with a chart")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--driver-memory", type=heap, default="2g", help="heap of Spark's JVM (default: %(default)s)"
    )
    add_settings(command)
    command.set_defaults(run=partial(_run, parser=command))


def _table(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name.strip() or not path.strip():
        raise argparse.ArgumentTypeError(f"{text} isn't NAME=PATH")
    return name.strip(), path.strip()


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a list of names with commas between them")
    return names


def _run(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from tailrace.commands import terminal
    from tailrace.commands.local_session import local_session

    place, colon, name = parsed.definition.rpartition(":")
    if not colon or not place or not name.isidentifier():
        parser.error(f"{parsed.definition} isn't FILE.py:NAME or MODULE:NAME")
    if place.endswith(".py") and not Path(place).is_file():
        parser.error(f"there is no file {place}")
    settings = {"spark.sql.session.timeZone": "UTC", **dict(parsed.conf)}
    with local_session("tailrace reconcile", parsed.driver_memory, settings) as spark:
        result = _reconciled(spark, parsed, _defined(spark, place, name))
        if parsed.parquet:
            result.write_parquet(parsed.parquet)
        if parsed.html:
            result.write_html(parsed.html)
    if parsed.json:
        print(_as_json(result))
    else:
        terminal.show_parts(_parts(result))
    return 0 if result.explained else _DIFFERENT


def _defined(spark: SparkSession, place: str, name: str) -> Any:  # noqa: ANN401  of a user's module
    """The definition that a module has.

    Raises:
        TypeError: it has no such name.
    """
    if place.endswith(".py"):
        # As `python FILE` does, so that it finds what is beside it.
        sys.path.insert(0, str(Path(place).resolve().parent))
        spec = importlib.util.spec_from_file_location("tailrace_reconciled", place)
        if spec is None or spec.loader is None:
            raise TypeError(f"{place} isn't a Python file.")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, str(Path.cwd()))
        module = importlib.import_module(place)
    if not hasattr(module, name):
        raise TypeError(f"{place} has no {name}: name a variable or a function of it.")
    value = getattr(module, name)
    if not callable(value):
        return value
    try:
        inspect.signature(value).bind(spark)
    except TypeError as error:
        raise TypeError(
            f"{name} of {place} can't be called with the Spark session alone: {error}. Name a variable, or a "
            "function that takes the session and returns the definition."
        ) from None
    return value(spark)


def _reconciled(spark: SparkSession, parsed: argparse.Namespace, definition: Any) -> Reconciliation:  # noqa: ANN401
    from tailrace._bridge.literal_path import files
    from tailrace.reconcile import reconcile

    tables = {name: files(spark, path, "parquet") for name, path in parsed.table}
    return reconcile(
        parsed.landed,
        definition,
        tables or None,
        keys=parsed.keys,
        time=parsed.time,
        on=parsed.on,
        labels=parsed.labels,
        columns=parsed.columns,
        window=parsed.window,
        offset=parsed.offset,
        since=parsed.since,
        until=parsed.until,
        format=parsed.format,
    )


def _as_json(result: Reconciliation) -> str:
    totals = asdict(result.totals)
    reasons = [
        {"kind": kind, "reason": reason, "rows": rows}
        for (kind, reason), rows in result.totals.reasons.items()
    ]
    totals |= {"reasons": reasons, "per_thousand": result.totals.per_thousand}
    return json.dumps({"equal": result.equal, "explained": result.explained, "totals": totals})


def _parts(result: Reconciliation) -> list[Any]:
    from tailrace._reconciling.page import verdict
    from tailrace.commands.terminal import Table

    reasons = result.totals.ordered_reasons
    rows = [(kind, reason or "none known", f"{count:,}") for (kind, reason), count in reasons]
    table = [Table(("kind", "reason", "rows"), rows, right=frozenset({2}))] if rows else []
    return [verdict(result.totals), *table]
