"""`tailrace why`: the reasons why rows of a checkpoint are buffered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.commands.argument_types import add_settings, positive

if TYPE_CHECKING:
    import argparse


def fill(why: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace why`.

    Args:
        why: its parser.
    """
    why.add_argument("checkpoint", help="the query's checkpointLocation: a path or a URI")
    why.add_argument(
        "--key",
        metavar="NAME=VALUE,...",
        help="a value for each key column of the join, by the left side's names: user_id=7,item_id=42",
    )
    why.add_argument(
        "--rows",
        type=positive,
        default=5,
        metavar="N",
        help="how many rows are shown of each join (default: %(default)s)",
    )
    why.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings(why)
    why.set_defaults(run=_why)


def _why(parsed: argparse.Namespace) -> int:
    # Late: `tailrace jar` in a script's $(...) loads little.
    from tailrace.commands.waiting import explain, show

    found = explain(parsed.checkpoint, parsed.key, parsed.rows, dict(parsed.conf))
    show(found, as_json=parsed.json)
    return 0
