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


def fill(demo: argparse.ArgumentParser) -> None:
    """Adds the arguments of `tailrace demo`."""
    demo.add_argument(
        "--rows", type=positive, default=_ROWS, help="impressions to make (default: %(default)s)"
    )
    demo.add_argument(
        "--slices", type=positive, default=10, help="micro-batches of data (default: %(default)s)"
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("tailrace-demo"),
        help="directory of chart and page (default: %(default)s)",
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
    demo.set_defaults(run=_demo)


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

    # So that started processes end, and written files are deleted.
    signal.signal(signal.SIGTERM, _terminated)
    is_right = run_demo(
        parsed.rows,
        parsed.slices,
        parsed.out,
        parsed.driver_memory,
        kill=not parsed.no_kill,
        compare=parsed.compare,
    )
    return 0 if is_right else 1


def _demo_watermark(parsed: argparse.Namespace) -> int:
    from tailrace.demo.watermark import run_watermark_demo

    return 0 if run_watermark_demo(parsed.driver_memory, stay=not parsed.no_browser) else 1
