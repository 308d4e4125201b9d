"""`/metrics`: the state of all applications in Prometheus' text format. Hosts are counted, not named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from tailrace.server import views
from tailrace.server.api import reader_of, worker_of
from tailrace.server.clock import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tailrace.server.answers import AppState
    from tailrace.server.ledger import Ledger
    from tailrace.server.worker import Tally

router = APIRouter(include_in_schema=False)

_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Sample = tuple["Mapping[str, str]", float]


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics."""

    def read(ledger: Ledger) -> list[AppState]:
        apps = (ledger.app(name) for name in ledger.names())
        return [views.app_state(app, ledger.now(), ledger.limits) for app in apps if app is not None]

    tally = worker_of(request).tally
    text = await reader_of(request).share(
        "metrics", lambda ledger: "\n".join([*_lines(read(ledger), tally), ""])
    )
    return Response(text, media_type=_TYPE)


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Answers well as long as the database can be read, and the last transaction has gone well.

    It waits for nobody, and says nothing of the database: the log does, and anybody may ask here.
    """
    if worker_of(request).tally.is_well():
        return Response("ok\n", media_type="text/plain")
    return Response("the database fails: see the server's log\n", 503, media_type="text/plain")


def _lines(states: list[AppState], tally: Tally) -> Iterator[str]:
    name = "tailrace_watermark"
    yield from _family(
        f"{name}_global_low_watermark_seconds",
        "gauge",
        "The application's low watermark, in event time since 1970; absent as long as there is none.",
        [
            ({"app": s.app}, s.global_low_watermark / SECOND)
            for s in states
            if s.global_low_watermark is not None
        ],
    )
    yield from _family(
        f"{name}_low_watermark_seconds",
        "gauge",
        "An operator's low watermark, likewise.",
        [
            ({"app": s.app, "operator": o.operator, "kind": o.kind, "end": end}, value / SECOND)
            for s in states
            for o in s.topology
            for end, value in (("input", o.input_low_watermark), ("output", o.output_low_watermark))
            if value is not None
        ],
    )
    yield from _family(
        f"{name}_lag_seconds",
        "gauge",
        "The server's time less an operator's output low watermark.",
        [
            ({"app": s.app, "operator": o.operator, "kind": o.kind}, o.lag / SECOND)
            for s in states
            for o in s.topology
            if o.lag is not None
        ],
    )
    for what, text in (
        ("hosts", "Hosts of a source that count."),
        ("hosts_behind", "Hosts that count and haven't passed the source's output low watermark."),
        ("hosts_allowed", "Hosts that may not have passed, by the completeness."),
        ("hosts_excluded", "Hosts that an operator has taken out."),
        ("hosts_idle", "Hosts that are silent, and not waited for."),
    ):
        yield from _family(
            f"{name}_{what}",
            "gauge",
            text,
            [
                ({"app": s.app, "operator": o.operator}, getattr(o, what))
                for s in states
                for o in s.topology
                if o.kind == "source"
            ],
        )
    yield from _family(
        f"{name}_reported_seconds",
        "gauge",
        "When the application has last reported.",
        [({"app": s.app}, s.reported_at / SECOND) for s in states],
    )
    for what, text, value in (
        ("reports_total", "Reports that were taken for a transaction.", tally.reports),
        ("reports_refused_total", "Reports that contradicted what is known.", tally.refused),
        ("reports_failed_total", "Reports that the database failed for.", tally.failed),
        ("transactions_total", "Transactions of reports.", tally.transactions),
        ("transaction_seconds_total", "What they took.", tally.transaction_seconds),
    ):
        yield from _family(f"{name}_{what}", "counter", text, [({}, value)])


def _family(name: str, kind: str, text: str, samples: list[_Sample]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
