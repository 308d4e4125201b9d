"""`tailrace state`: the commands that change the state in a checkpoint."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tailrace.commands.argument_types import add_settings, heap, number, positive
from tailrace.errors import TailraceError, from_condition

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Generator

    from pyspark.sql import SparkSession

    from tailrace.erasing import Erased

_UNCHANGED = "Nothing was changed."
# Of the arguments of the functions that the commands call.
_OPTIONS = {
    "where": "--where",
    "subjects": "--subjects",
    "operators": "--operator",
    "partitions": "--partitions",
    "to": "--to",
    "export": "--from",
}


def fill(state: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `tailrace state`.

    Args:
        state: its parser.
    """
    commands = state.add_subparsers(required=True, metavar="COMMAND")
    rescale = commands.add_parser(
        "rescale",
        help="give the joins of a checkpoint another number of state partitions",
        description="Moves the state of tailrace.join and tailrace.sync_join to another number of "
        "partitions. Stop the query before, and start it again afterwards. Works in a local Spark; on a "
        "cluster call tailrace.rescale in a session of it.",
    )
    rescale.add_argument("checkpoint", help="the query's checkpointLocation: a path or a URI")
    rescale.add_argument("--partitions", type=positive, required=True, metavar="N", help="the new number")
    rescale.add_argument("--to", metavar="DIR", help="a new checkpoint; the old one stays as it is")
    rescale.add_argument("--dry-run", action="store_true", help="only read and count the rows")
    _fill_session(rescale, _rescale)
    erase = commands.add_parser(
        "erase",
        help="erase rows from the state of a checkpoint's joins",
        description="Writes the state of tailrace.join and tailrace.sync_join anew without some rows, and "
        "deletes all former files. Stop the query before, and start it again afterwards. Works in a local "
        "Spark; on a cluster call tailrace.erase in a session of it.",
    )
    erase.add_argument("checkpoint", help="the query's checkpointLocation: a path or a URI")
    rows = erase.add_mutually_exclusive_group(required=True)
    rows.add_argument("--where", metavar="CONDITION", help='of the rows, in SQL: "user_id = 7"')
    rows.add_argument(
        "--subjects", metavar="PARQUET", help="a Parquet file: rows that have the values of one of its rows"
    )
    erase.add_argument(
        "--operator", type=number, action="append", default=[], metavar="N", help="a join (default: each)"
    )
    erase.add_argument(
        "--only-tailrace",
        action="store_true",
        help="leave the state of other operators of the query as it is",
    )
    erase.add_argument("--dry-run", action="store_true", help="only count the rows")
    _fill_session(erase, _erase)
    export = commands.add_parser(
        "export",
        help="write the rows that wait in a checkpoint's joins as Parquet",
        description="Writes left rows, right rows and matches so far, with the columns of the streams. Stop "
        "the query before. Works in a local Spark; on a cluster call tailrace.export_state in a session "
        "of it.",
    )
    export.add_argument("checkpoint", help="the query's checkpointLocation: a path or a URI")
    export.add_argument("--to", required=True, metavar="DIR", help="a new directory")
    export.add_argument("--dry-run", action="store_true", help="only read and count the rows")
    _fill_session(export, _export)
    bring = commands.add_parser(
        "import",
        help="make a checkpoint of an export",
        description="Makes a checkpoint of the rows of an export, which may have been edited, for the query "
        "that they are of. For other settings, and for rows of tables, call tailrace.import_state.",
    )
    bring.add_argument("checkpoint", help="the new checkpointLocation: a path or a URI")
    bring.add_argument(
        "--from", required=True, metavar="DIR", dest="export", help="the directory of the export"
    )
    bring.add_argument("--dry-run", action="store_true", help="only check and count the rows")
    _fill_session(bring, _import)


def _fill_session(command: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    command.add_argument(
        "--driver-memory", type=heap, default="2g", help="heap of Spark's JVM (default: %(default)s)"
    )
    add_settings(command)
    command.set_defaults(run=run)


@contextmanager
def _session(parsed: argparse.Namespace, command: str, doing: str) -> Generator[SparkSession]:
    """A local session, with a bar of its tasks."""
    # Late: `tailrace jar` in a script's $(...) loads little.
    from tailrace.commands.local_session import local_session
    from tailrace.commands.task_bar import task_bar

    with (
        local_session(f"tailrace state {command}", parsed.driver_memory, dict(parsed.conf)) as spark,
        task_bar(spark, doing),
    ):
        try:
            yield spark
        except TailraceError as error:
            raise of_options(error, f"tailrace state {command}") from error


def of_options(error: TailraceError, command: str) -> TailraceError:
    """A refusal of a function's argument, with the option of the command that it came from."""
    argument, call = error.parameters.get("argument", ""), error.parameters.get("call", "")
    if argument not in _OPTIONS or error.condition is None:
        return error
    text = error.args[0].replace(f"`{argument}` of {call}", f"`{_OPTIONS[argument]}` of `{command}`")
    for name, option in _OPTIONS.items():
        text = text.replace(f"`{name}`", f"`{option}`")
    return from_condition(error.condition, text, error.parameters)


def _rescale(parsed: argparse.Namespace) -> int:
    from tailrace.rescaling import rescale

    with _session(parsed, "rescale", "rescaling") as spark:
        begun = time.monotonic()
        done = rescale(spark, parsed.checkpoint, parsed.partitions, to=parsed.to, dry_run=parsed.dry_run)
        seconds = time.monotonic() - begun
    made = parsed.to or parsed.checkpoint
    if done.before == done.after and parsed.to is None:
        print(f"{made} has {done.after} state partitions already.")
    elif done.dry_run:
        for side in done.sides:
            print(f"operator {side.operator}, {side.name}, {side.side:<8}{side.rows:>12,} rows")
        print(
            f"{made} would have {done.after} state partitions, and {parsed.checkpoint} has {done.before}: "
            f"{done.rows:,} rows in all, {done.bytes / 1e6:,.1f} MB to read."
        )
        print(_UNCHANGED)
    else:
        before, start = ("had", "again") if parsed.to is None else ("the old one has", "with the new one")
        print(
            f"{made} has {done.after} state partitions, and {before} {done.before}: {done.rows:,} rows, "
            f"{done.bytes / 1e6:,.1f} MB, in {seconds:.1f} s. Start the query {start}."
        )
    return 0


def _export(parsed: argparse.Namespace) -> int:
    from tailrace.exchanging import export_state

    with _session(parsed, "export", "exporting") as spark:
        done = export_state(spark, parsed.checkpoint, parsed.to, dry_run=parsed.dry_run)
    for join in done.joins:
        for table, rows in sorted(join.rows.items()):
            print(f"{join.directory}/{table:<8}{rows:>12,} rows")
    has = "would have" if done.dry_run else "has"
    print(
        f"{parsed.to} {has} version {done.version} of {done.checkpoint}, which batch {done.batch} has made."
    )
    if done.others:
        print(f"Not in it: {', '.join(done.others)}.")
    if done.dry_run:
        print(_UNCHANGED)
    return 0


def _import(parsed: argparse.Namespace) -> int:
    from tailrace.exchanging import import_state

    with _session(parsed, "import", "importing") as spark:
        done = import_state(spark, parsed.checkpoint, export=parsed.export, dry_run=parsed.dry_run)
    rows = f"{done.left:,} left and {done.right:,} right rows"
    if done.dry_run:
        print(f"{done.checkpoint} would have {rows}. The query would go on behind batch {done.batch}.")
        print(_UNCHANGED)
    else:
        print(
            f"{done.checkpoint} has {rows}. The query resumes after batch {done.batch}: start it with this "
            f"checkpoint, and not with the old one."
        )
    return 0


def _erase(parsed: argparse.Namespace) -> int:
    from tailrace._bridge.literal_path import files
    from tailrace.erasing import erase

    with _session(parsed, "erase", "erasing") as spark:
        begun = time.monotonic()
        done = erase(
            spark,
            parsed.checkpoint,
            parsed.where,
            subjects=None if parsed.subjects is None else files(spark, parsed.subjects, "parquet"),
            operators=parsed.operator,
            only_tailrace=parsed.only_tailrace,
            dry_run=parsed.dry_run,
        )
        seconds = time.monotonic() - begun
    print("\n".join(_erased(done, seconds)))
    return 0


def _erased(done: Erased, seconds: float) -> list[str]:
    verb = "would be erased" if done.dry_run else "erased"
    lines = [
        f"operator {side.operator}, {side.name}, {side.side:<8}"
        + (f"{side.erased:>12,} rows {verb}" if side.applies else "  lacks a column of the condition")
        for side in done.sides
    ]
    if done.dry_run:
        lines.append(_UNCHANGED)
    else:
        lines.append(
            f"{done.checkpoint} is written anew in version {done.version}: {done.rows:,} rows are left, "
            f"{done.bytes / 1e6:,.1f} MB, in {seconds:.1f} s."
        )
        lines.append("All former files of the state are deleted. Start the query again.")
    lines.append("Such rows may still be in:")
    return lines + [f"  {place}" for place in done.untouched]
