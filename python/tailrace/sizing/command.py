"""The arguments of `tailrace size`."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

from tailrace.sizing import quantities
from tailrace.sizing.load import Load, Prices

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLE = """\
for instance:
  tailrace size --left 3.3M --right 1.7M --row-bytes 200 --after "24 hours" --trigger 10s
  tailrace size --left 20k --right 10k --row-bytes 500 --after "30 min" --partitions 64 --cores 16 \\
      --price-put 0.005 --price-core-hour 0.05

Rates are rows a second and may have k, M or G; sizes may have k, MB, GB, TB (of 1,000); durations have a
unit: 10s, "30 min", "24 hours". The numbers are of a query that has run for longer than its window, with keys
that are spread evenly. Reading the source, decoding it and writing the sink aren't in the cores: measure them
with your own data. --constants shows the measurements that the numbers come from.
"""


def _number(read: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


_rate = _number(quantities.rate)
_size = _number(quantities.size)
_duration = _number(quantities.duration)


def _whole(text: str) -> int:
    number = _number(quantities.rate)(text)
    if number != int(number) or number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a whole number of one or more")
    return int(number)


def _price(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a price: write a number, such as 0.005") from None


def _release(text: str) -> float:
    return 0.0 if text.strip() == "batch" else _duration(text)


class _Constants(argparse.Action):
    """Prints the table, as --help prints the help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from tailrace.sizing.report import constants_text

        print(constants_text())
        parser.exit()


def fill(parser: argparse.ArgumentParser) -> None:
    """Gives the command its arguments.

    Args:
        parser: of the command.
    """
    parser.description = "Calculates what a label join needs on a cluster, and what breaks first."
    parser.epilog = _EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _join_arguments(parser)
    _cluster_arguments(parser)
    _store_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object: rows, bytes, seconds")
    parser.add_argument("--constants", action=_Constants, nargs=0, help="show the measurements, and end")
    parser.set_defaults(run=partial(run, parser=parser))


def _join_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the join")
    group.add_argument("--left", type=_rate, required=True, metavar="RATE", help="rows a second: 5M")
    group.add_argument("--right", type=_rate, required=True, metavar="RATE", help="rows a second: 2.5M")
    group.add_argument("--row-bytes", type=_size, metavar="SIZE", help="of a row of both sides: 200, 1k")
    group.add_argument("--left-bytes", type=_size, metavar="SIZE", help="of a left row, if they differ")
    group.add_argument("--right-bytes", type=_size, metavar="SIZE", help="of a right row, if they differ")
    group.add_argument("--after", type=_duration, required=True, metavar="TIME", help="of the window")
    group.add_argument("--before", type=_duration, default=0.0, metavar="TIME", help="of it (default: 0)")
    group.add_argument(
        "--delay", type=_duration, default=600.0, metavar="TIME", help="of the watermarks (default: 10 min)"
    )
    group.add_argument("--trigger", type=_duration, default=10.0, metavar="TIME", help="(default: 10 s)")
    group.add_argument(
        "--release-every",
        type=_release,
        metavar="TIME",
        help='of the join, or "batch" (default: a 64th of the window)',
    )
    group.add_argument("--eager", action="store_true", help="spark.tailrace.join.strategy = eager")
    group.add_argument(
        "--matches", type=float, default=0.5, metavar="N", help="right rows a left row matches (default: 0.5)"
    )
    group.add_argument(
        "--replays",
        type=_whole,
        default=0,
        metavar="N",
        help="a replay filter of N producers x source partitions",
    )
    group.add_argument(
        "--hosts", type=_whole, default=0, metavar="N", help="an accurate watermark of N hosts"
    )
    group.add_argument(
        "--windows-open",
        type=_whole,
        default=0,
        metavar="N",
        help="write_windows, N windows of which get rows in one micro-batch",
    )


def _cluster_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the cluster")
    group.add_argument("--partitions", type=_whole, metavar="N", help="of the state (default: suggested)")
    group.add_argument("--cores", type=_whole, metavar="N", help="of all executors (default: suggested)")
    group.add_argument("--executor-cores", type=_whole, default=4, metavar="N", help="(default: 4)")
    group.add_argument("--executor-memory", type=_size, metavar="SIZE", help="of heap: is it enough?")
    group.add_argument("--executor-disk", type=_size, metavar="SIZE", help="of local disk: is it enough?")
    group.add_argument("--driver-memory", type=_size, metavar="SIZE", help="of heap: is it enough?")
    group.add_argument(
        "--recovery",
        type=_duration,
        metavar="TIME",
        help="in which a lost executor's partitions must be back",
    )


def _store_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the object store, and prices in any currency")
    group.add_argument(
        "--latency", type=_duration, default=0.03, metavar="TIME", help="of a request (default: 30ms)"
    )
    group.add_argument(
        "--download",
        type=_size,
        default=500e6,
        metavar="SIZE",
        help="a second that an executor reads (default: 500 MB)",
    )
    group.add_argument(
        "--writes", type=_rate, default=3500.0, metavar="RATE", help="PUTs a second it takes (default: 3,500)"
    )
    group.add_argument("--price-put", type=_price, metavar="PRICE", help="of 1,000 PUTs")
    group.add_argument("--price-get", type=_price, metavar="PRICE", help="of 1,000 GETs")
    group.add_argument("--price-gb-month", type=_price, metavar="PRICE", help="of a GB for a month")
    group.add_argument("--price-core-hour", type=_price, metavar="PRICE", help="of a core for an hour")


def load_of(parsed: argparse.Namespace) -> Load:
    """The load that a command line names.

    Raises:
        ValueError: numbers that don't fit together.
    """
    left, right = parsed.left_bytes or parsed.row_bytes, parsed.right_bytes or parsed.row_bytes
    if left is None or right is None:
        raise ValueError("Name --row-bytes, or both --left-bytes and --right-bytes.")
    return Load(
        left=parsed.left,
        right=parsed.right,
        left_bytes=left,
        right_bytes=right,
        after=parsed.after,
        before=parsed.before,
        delay=parsed.delay,
        trigger=parsed.trigger,
        partitions=parsed.partitions,
        cores=parsed.cores,
        eager=parsed.eager,
        release_every=parsed.release_every,
        matches=parsed.matches,
        origins=parsed.replays,
        hosts=parsed.hosts,
        windows_open=parsed.windows_open,
        executor_cores=parsed.executor_cores,
        executor_memory=parsed.executor_memory,
        executor_disk=parsed.executor_disk,
        driver_memory=parsed.driver_memory,
        recovery=parsed.recovery,
        latency=parsed.latency,
        download=parsed.download,
        writes=parsed.writes,
        prices=Prices(
            put=parsed.price_put,
            get=parsed.price_get,
            gb_month=parsed.price_gb_month,
            core_hour=parsed.price_core_hour,
        ),
    )


def _of_options(text: str) -> str:
    """A sentence about fields of the load, with the options that they come from."""
    known = {field.name: f"--{field.name.replace('_', '-')}" for field in fields(Load)}
    options = known | {"origins": "--replays"}
    priced = re.sub(r"The price (\w+)", lambda found: f"--price-{found[1].replace('_', '-')}", text)
    return re.sub(r"(?<!-)\b[a-z_]+\b", lambda found: options.get(found[0], found[0]), priced)


def run(parsed: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Calculates and prints. Returns the exit code.

    Args:
        parsed: the arguments.
        parser: which tells what is wrong with them.
    """
    from tailrace.commands import terminal
    from tailrace.sizing.report import as_json, as_pairs
    from tailrace.sizing.sized import size

    try:
        asked = load_of(parsed)
    except ValueError as error:
        parser.error(_of_options(str(error)))
    sized = size(asked)
    if parsed.json:
        print(as_json(sized))
    else:
        terminal.show_parts([as_pairs(sized, asked)])
    return 0
