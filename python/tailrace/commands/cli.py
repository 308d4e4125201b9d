"""The `tailrace` command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.commands import jar, reconciling, state, why
from tailrace.commands.argument_types import add_settings, number, positive
from tailrace.commands.failures import exit_code
from tailrace.demo import command as demo_command
from tailrace.sizing import command as size_command

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code.

    `_command_failures.EXIT_CODES` lists the codes. An error is printed in one line.

    Args:
        arguments: what follows the command's name; None takes the process's.
    """
    return exit_code(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    parser = command_line()
    parsed = parser.parse_args(arguments)
    if parsed.run is None:
        parser.print_help()
        return 0
    return int(parsed.run(parsed))


def command_line() -> argparse.ArgumentParser:
    """The parser of the command, with all its subcommands."""
    parser = argparse.ArgumentParser(
        prog="tailrace", description="Event-time joins for Spark Structured Streaming."
    )
    parser.add_argument(
        "--version",
        dest="run",
        action="store_const",
        const=jar.version,
        help="print the version, and the jar that fits",
    )
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND")

    demo_command.fill(
        commands.add_parser(
            "demo", help="join two streams of made-up data in a local Spark and show the result"
        )
    )
    demo_command.fill_watermark(
        commands.add_parser(
            "demo-watermark",
            help="show windows that wait for a host that lags, with the watermark server's page",
        )
    )

    doctor = commands.add_parser(
        "doctor", help="check this installation and say what to do about what is wrong"
    )
    doctor.add_argument("--no-session", action="store_true", help="don't start a Spark session")
    doctor.set_defaults(run=_doctor)

    inspect = commands.add_parser(
        "inspect",
        help="show the state that the joins of a checkpoint keep",
        description="Shows size and oldest and newest event time of each store and partition, and the joins' "
        "settings. Reads manifests alone and starts no Spark; the query may run meanwhile.",
    )
    inspect.add_argument("checkpoint", help="the query's checkpointLocation: a path or a URI")
    which = inspect.add_mutually_exclusive_group()
    which.add_argument(
        "--version",
        type=positive,
        metavar="N",
        help="version of the state (default: that of the newest batch that has completed)",
    )
    which.add_argument("--batch", type=number, metavar="N", help="the version that this batch made: N + 1")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    add_settings(inspect)
    inspect.set_defaults(run=_inspect)

    asked = commands.add_parser(
        "why",
        help="say what the rows of a checkpoint wait for, and who holds the watermark",
        description="Says who holds the watermark, which row is emitted next and what is missing for that. "
        "Shows the oldest rows that wait, or those of a key. Starts no Spark; the query may run meanwhile.",
    )
    why.fill(asked)
    state.fill(commands.add_parser("state", help="change the state in a checkpoint"))

    reconciling.fill(
        commands.add_parser(
            "reconcile", help="compare landed windows with the batch answer of their definition"
        )
    )

    size_command.fill(
        commands.add_parser(
            "size", help="calculate what a join needs: state, cores, requests, memory, and what breaks first"
        )
    )

    server = commands.add_parser(
        "watermark-server",
        help="run the server that keeps the low watermarks of applications",
        description="Keeps how far each host's log has been read, computes the low watermarks along the "
        "topology, and shows them on a page. Ends with Ctrl-C.",
    )
    _fill_server(server)

    watermarks = commands.add_parser(
        "watermarks",
        help="show the low watermarks of a server, and who holds them back",
        description="Shows each operator's input and output low watermark and lag, and the slowest hosts.",
    )
    where = watermarks.add_mutually_exclusive_group()
    where.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="the server, or several of one store with commas between them, the next of which is asked if "
        "one is away; the same as --server URL",
    )
    where.add_argument(
        "--server", default="http://127.0.0.1:7171", metavar="URL", help="the server (default: %(default)s)"
    )
    watermarks.add_argument("--app", help="one application (default: all of the server)")
    watermarks.add_argument(
        "--hosts", type=positive, default=5, help="how many of the slowest hosts (default: %(default)s)"
    )
    watermarks.add_argument(
        "--token-file",
        type=Path,
        help="a file with the server's bearer token, or that of readers; without one the variable "
        "TAILRACE_WATERMARK_TOKEN",
    )
    watermarks.add_argument("--json", action="store_true", help="print one JSON object")
    watermarks.set_defaults(run=_watermarks)

    jar.fill(
        commands.add_parser(
            "jar", help='print the path of the jar, for spark-submit --jars "$(tailrace jar)"'
        )
    )
    jar.fill_connect(
        commands.add_parser(
            "connect-conf",
            help="print the arguments that a Spark Connect server needs: start-connect-server.sh "
            "$(tailrace connect-conf)",
        )
    )
    return parser


def _fill_server(server: argparse.ArgumentParser) -> None:
    server.add_argument(
        "--listen", default="127.0.0.1:7171", metavar="HOST:PORT", help="where (default: %(default)s)"
    )
    store = server.add_mutually_exclusive_group()
    store.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:///FILE, or postgresql://... for more than one server. One with a password doesn't "
        "belong on a command line, which all users of the machine see: name a --store-file, or set "
        "TAILRACE_WATERMARK_STORE (default: sqlite:///watermarks.db)",
    )
    store.add_argument("--store-file", type=Path, help="a file whose first line is that URL")
    server.add_argument(
        "--token-file",
        type=Path,
        help="a file with the bearer token for everything; without one the variable "
        "TAILRACE_WATERMARK_TOKEN. Listening on anything but a loopback address takes a token",
    )
    for right, what in (
        ("read", "who only reads: pages, metrics, the API"),
        ("report", "queries, which report and read"),
        ("decide", "people who override the rules, and read"),
    ):
        server.add_argument(
            f"--{right}-token-file",
            type=Path,
            help=f"a token of its own for {what}; or TAILRACE_WATERMARK_{right.upper()}_TOKEN",
        )
    server.add_argument(
        "--tls-certificate", type=Path, metavar="PEM", help="serve HTTPS, with this certificate and its chain"
    )
    server.add_argument("--tls-key", type=Path, metavar="PEM", help="its key, if it is in another file")
    server.add_argument(
        "--future-limit",
        type=positive,
        default=86_400,
        metavar="SECONDS",
        help="times further ahead of this machine's clock aren't taken (default: %(default)s)",
    )
    server.add_argument(
        "--forget-hosts-after",
        type=positive,
        default=7 * 86_400,
        metavar="SECONDS",
        help="hosts in no roster that are silent for so long while others rise are forgotten "
        "(default: %(default)s)",
    )
    server.add_argument(
        "--path-prefix",
        default="",
        metavar="PATH",
        help="the path below which a proxy shows the server, for instance /watermarks; the proxy may take it "
        "off or not",
    )
    server.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="warning",
        help="the least that is logged, to standard error; info has each override (default: %(default)s)",
    )
    server.add_argument("--access-log", action="store_true", help="log each request")
    server.set_defaults(run=_watermark_server)


# The imports below are late: `tailrace jar` in a script's $(...) loads little, and needs no extra.


def _doctor(parsed: argparse.Namespace) -> int:
    from tailrace.commands.doctor import report

    return 0 if report(with_session=not parsed.no_session) else 1


def _inspect(parsed: argparse.Namespace) -> int:
    from tailrace.commands.inspection import inspect_checkpoint, show

    version = parsed.version if parsed.batch is None else parsed.batch + 1
    show(inspect_checkpoint(parsed.checkpoint, version, dict(parsed.conf)), as_json=parsed.json)
    return 0


def _watermark_server(parsed: argparse.Namespace) -> int:
    from tailrace.server.logs import write_log
    from tailrace.server.opening import read_store
    from tailrace.server.run import Options, serve
    from tailrace.server.tokens import read_tokens

    options = Options(
        tokens=read_tokens(
            parsed.token_file, parsed.read_token_file, parsed.report_token_file, parsed.decide_token_file
        ),
        certificate=parsed.tls_certificate,
        key=parsed.tls_key,
        future_limit=parsed.future_limit,
        forget_hosts_after=parsed.forget_hosts_after,
        path_prefix=parsed.path_prefix,
        access_log=parsed.access_log,
    )
    write_log(parsed.log_level)
    serve(parsed.listen, read_store(parsed.store, parsed.store_file), options)
    return 0


def _watermarks(parsed: argparse.Namespace) -> int:
    from tailrace.server.overview import overview, show
    from tailrace.server.tokens import read_token

    found = overview(parsed.url or parsed.server, read_token(parsed.token_file), parsed.app, parsed.hosts)
    show(found, as_json=parsed.json)
    return 0
