"""`/metrics`: the state of all applications in Prometheus' text format. Hosts are counted, not named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from tailrace.server import views
from tailrace.server.api import reader_of, worker_of
from tailrace.server.reporters import shown_reads
from tailrace.server.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from tailrace.server.answers import AppState
    from tailrace.server.ledger import Ledger
    from tailrace.server.worker import Tally

router: APIRouter = APIRouter(include_in_schema=False)

_NAME = "tailrace_watermark"
_HOSTS = {
    "hosts": "Hosts of a source that count.",
    "hosts_behind": "Hosts that count and haven't passed the source's output low watermark.",
    "hosts_allowed": "Hosts that may not have passed, by the completeness.",
    "hosts_excluded": "Hosts that an operator has taken out.",
    "hosts_idle": "Idle hosts, which hold nothing back.",
}
_SPANS = {
    "backlog": "The server's time less the progress of the slowest host of a source that counts.",
    "skew": "How far the fastest host of a source that counts is ahead of the slowest one.",
}
_TALLIED = {
    "reports": ("reports", "Reports that were taken for a transaction."),
    "reports_refused": ("refused", "Reports that contradicted what is known."),
    "reports_failed": ("failed", "Reports that the database failed for."),
    "transactions": ("transactions", "Transactions of reports."),
    "transaction_seconds": ("transaction_seconds", "Seconds that the transactions took."),
}


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """All metrics."""
    tally = worker_of(request).tally

    def read(ledger: Ledger) -> bytes:
        apps = (ledger.app(name) for name in ledger.names())
        states = [views.app_state(app, ledger.now(), ledger.limits) for app in apps if app is not None]
        # Its own registry: the global one has metrics of the Python process.
        registry = CollectorRegistry()
        registry.register(_Collector(states, tally))
        return generate_latest(registry)

    return Response(
        await reader_of(request).share("metrics", read), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
    )


class _Collector(Collector):
    def __init__(self, states: Sequence[AppState], tally: Tally) -> None:
        self._states = states
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        operators = [(s.app, o) for s in self._states for o in s.topology]
        yield _gauge(
            "global_low_watermark_seconds",
            "The application's low watermark, in event time since 1970; absent as long as there is none.",
            ("app",),
            (((s.app,), s.global_low_watermark, SECOND) for s in self._states),
        )
        yield _gauge(
            "low_watermark_seconds",
            "An operator's low watermark, likewise.",
            ("app", "operator", "kind", "end"),
            (
                ((app, o.operator, o.kind, end), value, SECOND)
                for app, o in operators
                for end, value in (("input", o.input_low_watermark), ("output", o.output_low_watermark))
            ),
        )
        yield _gauge(
            "lag_seconds",
            "The server's time less an operator's output low watermark.",
            ("app", "operator", "kind"),
            (((app, o.operator, o.kind), o.lag, SECOND) for app, o in operators),
        )
        for what, text in _SPANS.items():
            spans = (((app, o.operator), getattr(o, what), SECOND) for app, o in operators)
            yield _gauge(f"{what}_seconds", text, ("app", "operator"), spans)
        for what, text in _HOSTS.items():
            hosts = (((app, o.operator), getattr(o, what), 1) for app, o in operators if o.kind == "source")
            yield _gauge(what, text, ("app", "operator"), hosts)
        reporters = [(app, o, r) for app, o in operators for r in o.reporters]
        yield _gauge(
            "reporter_live",
            "1 for each query that reports an operator and lives, 0 for one that isn't heard of.",
            ("app", "operator", "client", "query", "run", "logs"),
            (
                (
                    (
                        app,
                        o.operator,
                        r.client,
                        r.query or "",
                        r.run,
                        shown_reads(r.model_dump()),
                    ),
                    r.live,
                    1,
                )
                for app, o, r in reporters
            ),
        )
        yield _gauge(
            "reporter_holds",
            "1 for each query for which an operator's low watermark waits, else 0.",
            ("app", "operator", "client"),
            (((app, o.operator, r.client), r.holds, 1) for app, o, r in reporters),
        )
        yield _gauge(
            "reporter_gone_back_from",
            "How many micro-batches a query had told of whose checkpoint was restored from an older copy, "
            "until it has caught up.",
            ("app", "operator", "client"),
            (((app, o.operator, r.client), r.gone_back_from, 1) for app, o, r in reporters),
        )
        yield _gauge(
            "reported_seconds",
            "When the application has last reported.",
            ("app",),
            (((s.app,), s.reported_at, SECOND) for s in self._states),
        )
        for what, (counted, text) in _TALLIED.items():
            yield CounterMetricFamily(f"{_NAME}_{what}", text, value=getattr(self._tally, counted))


def _gauge(
    what: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], int | None, int]]
) -> GaugeMetricFamily:
    """A gauge without the samples that have no value; each sample has its labels, a value and a divisor."""
    family = GaugeMetricFamily(f"{_NAME}_{what}", text, labels=labels)
    for values, value, divisor in samples:
        if value is not None:
            family.add_metric(values, value / divisor)
    return family
