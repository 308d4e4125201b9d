"""The arguments of `tailrace demo` and `tailrace demo-watermark`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tailrace._installation.extras import install
from tailrace.commands.argument_types import heap, positive
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    import argparse

_ROWS = 200_000
_OUT = Path("tailrace-demo")


def fill(demo: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace demo`."""
    demo.add_argument("--rows", type=positive, help=f"impressions to make (default: {_ROWS})")
    demo.add_argument(
        "--slices", type=positive, default=10, help="micro-batches of data (default: %(default)s)"
    )
    demo.add_argument(
        "--out",
        type=Path,
        help=f"directory of chart and page (default: {_OUT})",
    )
    demo.add_argument(
        "--driver-memory", type=heap, default="2g", help="heap of Spark's JVM (default: %(default)s)"
    )
    demo.add_argument(
        "--no-kill", action="store_true", help="let the query run, without a kill -9 on the way"
    )
    demo.add_argument(
        "--compare", action="store_true", help="run Spark's own join over the same data as well"
    )
    demo.add_argument(
        "--criteo",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="split a file in the layout of the Criteo attribution data set into streams, join them again, "
        "and compare with its columns; without FILE, a small made sample",
    )
    demo.set_defaults(run=_demo, refuse=demo.error)


def fill_watermark(watermark: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace demo-watermark`."""
    watermark.add_argument(
        "--driver-memory", type=heap, default="2g", help="heap of Spark's JVM (default: %(default)s)"
    )
    watermark.add_argument(
        "--no-browser", action="store_true", help="open no page, and end when all has been shown"
    )
    watermark.set_defaults(run=_demo_watermark)


# The imports below are late: `tailrace jar` in a script's $(...) loads little, and needs no extra.


def _terminated(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _demo(parsed: argparse.Namespace) -> int:
    try:
        from tailrace.demo.criteo import run_criteo
        from tailrace.demo.run import run_demo
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "tailrace":
            raise
        raise TailraceError(
            f"The demo needs {missing}, which isn't installed. Install what it needs: {install('demo')}.",
            condition="TAILRACE_DEMO_DEPENDENCY_MISSING",
            parameters={"extra": "demo"},
        ) from error

    # So that what was started ends, and what was written is deleted.
    signal.signal(signal.SIGTERM, _terminated)
    if parsed.criteo is not None:
        _refuse_others(parsed)
        file = None if parsed.criteo == Path() else parsed.criteo
        return 0 if run_criteo(file, parsed.slices, parsed.driver_memory) else 1
    is_right = run_demo(
        parsed.rows or _ROWS,
        parsed.slices,
        parsed.out or _OUT,
        parsed.driver_memory,
        kill=not parsed.no_kill,
        compare=parsed.compare,
    )
    return 0 if is_right else 1


def _refuse_others(parsed: argparse.Namespace) -> None:
    """Refuses the options that `--criteo` would take no notice of."""
    for option in ("rows", "out", "no_kill", "compare"):
        if getattr(parsed, option):
            parsed.refuse(f"--{option.replace('_', '-')} isn't for --criteo")


def _demo_watermark(parsed: argparse.Namespace) -> int:
    from tailrace.demo.watermark import run_watermark_demo

    return 0 if run_watermark_demo(parsed.driver_memory, stay=not parsed.no_browser) else 1
