"""`tailrace state`: what changes the state in a checkpoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tailrace._argument_types import add_settings, heap, positive

if TYPE_CHECKING:
    import argparse


def fill(state: argparse.ArgumentParser) -> None:
    """Adds what `tailrace state` can do.

    Args:
        state: its parser.
    """
    commands = state.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "rescale",
        help="give the joins of a checkpoint another number of state partitions",
        description="Moves the state of tailrace.join and tailrace.sync_join to another number of "
        "partitions. Stop the query before, and start it again afterwards. Works in a local Spark; on a "
        "cluster call tailrace.rescale in a session of it.",
    )
    command.add_argument("checkpoint", help="the query's checkpointLocation: a path or a URI")
    command.add_argument("--partitions", type=positive, required=True, metavar="N", help="the new number")
    command.add_argument(
        "--driver-memory", type=heap, default="2g", help="heap of Spark's JVM (default: %(default)s)"
    )
    add_settings(command)
    command.set_defaults(run=_rescale)


def _rescale(parsed: argparse.Namespace) -> int:
    # Late: `tailrace jar` in a script's $(...) loads little.
    from tailrace._local import local_session
    from tailrace._task_bar import task_bar
    from tailrace.rescaling import rescale

    with local_session("tailrace state rescale", parsed.driver_memory, dict(parsed.conf)) as spark:
        begun = time.monotonic()
        with task_bar(spark, "rescaling"):
            done = rescale(spark, parsed.checkpoint, parsed.partitions)
        seconds = time.monotonic() - begun
    if done.before == done.after:
        print(f"{parsed.checkpoint} has {done.after} state partitions already.")
    else:
        print(
            f"{parsed.checkpoint} has {done.after} state partitions, and had {done.before}: {done.rows:,} "
            f"rows, {done.bytes / 1e6:,.1f} MB, in {seconds:.1f} s. Start the query again."
        )
    return 0
