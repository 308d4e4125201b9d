"""The routes of the API, and how it refuses."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError

from tailrace._version import __version__
from tailrace.server import answers, hostpages, protocol, views
from tailrace.server.database import DatabaseError
from tailrace.server.names import MAX_NAME
from tailrace.server.parsing import MalformedError, ReportRoute
from tailrace.server.protocol import Name
from tailrace.server.reading import BusyError
from tailrace.server.reporter import RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from pydantic import BaseModel

    from tailrace.server.ledger import Ledger
    from tailrace.server.reading import Reader
    from tailrace.server.state import App
    from tailrace.server.worker import Worker

_SHOWN_ERRORS = 3

_log = logging.getLogger(__name__)

AppName = Annotated[Name, Path(description="The application.")]
Operator = Annotated[Name | None, Query(description="One operator; all of them if it isn't given.")]
Search = Annotated[str, Query(max_length=MAX_NAME, description="A part of the name, in any case.")]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Offset = Annotated[int, Query(ge=0, le=100_000)]


class UnknownAppError(Exception):
    """Nobody has reported of the application."""


def build_api(worker: Worker, reader: Reader, prefix: str = "") -> FastAPI:
    """Makes the ASGI application with the API alone; the page and the metrics come to it as routers.

    Args:
        worker: started and stopped with the application; it takes reports and decisions.
        reader: stopped with it; it answers all who only read.
        prefix: the path below which a proxy shows the server, for addresses in pages and in the description.
    """
    parser = ThreadPoolExecutor(1, "watermark-parser")

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncGenerator[None]:
        worker.start()
        yield
        parser.shutdown(wait=True, cancel_futures=True)
        worker.stop()
        reader.stop()

    # FastAPI's documentation page loads scripts from a CDN; ours, in `page`, needs none.
    api = FastAPI(
        title="Tailrace watermark server",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        servers=[{"url": prefix}] if prefix else None,
        # It would redirect to a path without the prefix.
        redirect_slashes=not prefix,
    )
    api.state.worker = worker
    api.state.reader = reader
    api.state.parser = parser
    api.state.prefix = prefix
    api.include_router(_reports)
    api.include_router(_router)
    api.add_exception_handler(RequestValidationError, _malformed)
    api.add_exception_handler(MalformedError, _malformed)
    api.add_exception_handler(RefusedError, _refused)
    api.add_exception_handler(UnknownAppError, _unknown)
    api.add_exception_handler(DatabaseError, _unavailable)
    api.add_exception_handler(BusyError, _unavailable)
    return api


def known_app(ledger: Ledger, name: str) -> App:
    """An application.

    Raises:
        UnknownAppError: there is none.
    """
    app = ledger.app(name)
    if app is None:
        raise UnknownAppError(f"there is no application {name!r}")
    return app


def reader_of(request: Request) -> Reader:
    """The reader of the application that serves a request."""
    reader: Reader = request.app.state.reader
    return reader


def worker_of(request: Request) -> Worker:
    """The worker of the application that serves a request."""
    worker: Worker = request.app.state.worker
    return worker


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": answers.Problem, "description": description}
    for status, description in {
        400: "The body is no JSON.",
        401: "A token is needed.",
        403: "A page of another site asks, through a browser.",
        404: "The application is unknown.",
        409: "The request contradicts what is known.",
        413: "The body is too large.",
        421: "The server isn't asked by a loopback name.",
        422: "A value is malformed or out of its limits.",
        408: "The body doesn't come.",
        503: "The database fails, or too much waits: nothing is acknowledged, send it again.",
    }.items()
}
_router = APIRouter(prefix="/v1/apps", responses=_PROBLEMS)
_reports = APIRouter(prefix="/v1/apps", responses=_PROBLEMS, route_class=ReportRoute)


@_reports.post("/{app}/reports", summary="Report progress")
async def report(app: AppName, body: protocol.Report, request: Request) -> answers.ReportAnswer:
    """Takes in the progress of operators; answers with low watermarks. Repeat a report until it is taken."""
    return await worker_of(request).report(app, body)


@_router.get("", summary="All applications", response_model=list[answers.AppSummary])
async def apps(request: Request) -> Response:
    """All applications, by name."""

    def read(ledger: Ledger) -> str:
        states = (ledger.app(name) for name in ledger.names())
        found = [views.app_summary(app, ledger.limits) for app in states if app is not None]
        return f"[{','.join(state.model_dump_json() for state in found)}]"

    return _json(await reader_of(request).call(read))


@_router.get("/{app}", summary="One application", response_model=answers.AppState)
async def one_app(app: AppName, request: Request) -> Response:
    """An application with the low watermarks of all its operators."""
    return await _shown(
        request, app, lambda ledger, known: views.app_state(known, ledger.now(), ledger.limits)
    )


def _asked(
    operator: Operator = None,
    search: Search = "",
    state: Annotated[answers.Standing | None, Query(description="Those in one state.")] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> hostpages.Asked:
    return hostpages.Asked(operator, search, state, limit, offset)


@_router.get("/{app}/hosts", summary="Hosts, the slowest first", response_model=answers.HostPage)
async def hosts(
    app: AppName, request: Request, asked: Annotated[hostpages.Asked, Depends(_asked)]
) -> Response:
    """The hosts of one source, or of all; by a part of their names, and by their state."""
    return await _shown(
        request, app, lambda ledger, known: hostpages.host_page(known, asked, ledger.clock(), ledger.limits)
    )


@_router.get("/{app}/windows", summary="Completeness reports of windows", response_model=answers.WindowPage)
async def windows(
    app: AppName, request: Request, operator: Operator = None, limit: Limit = 20, offset: Offset = 0
) -> Response:
    """Windows that have closed, the latest first."""
    return await _shown(
        request,
        app,
        lambda ledger, known: views.window_page(ledger.records.windows(known, operator, limit, offset)),
    )


@_router.get("/{app}/history", summary="Low watermarks over time", response_model=answers.History)
async def history(
    app: AppName,
    request: Request,
    since: Annotated[int, Query(ge=0, le=protocol.MAX_TIME)] = 0,
    operator: Operator = None,
) -> Response:
    """Output low watermarks of the last six hours, every ten seconds in which something was reported.

    At most 100,000 of them: `next` is what to ask for as `since` then.
    """

    def read(ledger: Ledger) -> str:
        rows, after = ledger.records.history(known_app(ledger, app), since, operator)
        # Up to 100,000 points: models of pydantic would take too long.
        series: dict[str, list[dict[str, int]]] = {}
        for name, at, low in rows:
            series.setdefault(name, []).append({"at": at, "low_watermark": low})
        return json.dumps({"series": series, "next": after})

    return _json(await reader_of(request).call(read))


@_router.get("/{app}/overrides", summary="The audit table", response_model=answers.OverridePage)
async def overrides(app: AppName, request: Request, limit: Limit = 20, offset: Offset = 0) -> Response:
    """Decisions of people, the latest first."""
    return await _shown(
        request, app, lambda ledger, known: views.override_page(ledger.records.audit(known, limit, offset))
    )


async def _shown(request: Request, app: str, view: Callable[[Ledger, App], BaseModel]) -> Response:
    """A view of an application, written as JSON in the reader's thread too."""
    return _json(
        await reader_of(request).call(lambda ledger: view(ledger, known_app(ledger, app)).model_dump_json())
    )


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


@_router.post("/{app}/overrides", summary="Advance, undo, exclude, include, remove or purge")
async def override(app: AppName, body: protocol.OverrideRequest, request: Request) -> answers.Override:
    """Applies a decision and audits it. Include reverts an exclusion, undo an advance, a report a removal."""

    def decide(ledger: Ledger) -> int:
        known_app(ledger, app)
        return ledger.override(app, body)

    at = await worker_of(request).call(decide)
    _log.info("%r: %s of %r by %r: %s", app, body.action, body.operator or "all", body.name, body.reason)
    return answers.Override(
        at=at,
        action=body.action,
        operator=body.operator or "",
        to=body.to,
        host=body.host or body.client,
        name=body.name,
        reason=body.reason,
    )


def problem(status: int, reason: str, code: str | None = None) -> Response:
    """A refusal in JSON."""
    body = {"detail": reason} if code is None else {"detail": reason, "code": code}
    # Only ASCII, because the reason may quote invalid Unicode.
    return Response(json.dumps(body), status, media_type="application/json")


def _malformed(_: Request, error: Exception) -> Response:
    found: Sequence[Any] = error.faults if isinstance(error, MalformedError) else []
    if isinstance(error, RequestValidationError):
        found = error.errors()
    # The answer doesn't echo the input, which may be long or invalid Unicode.
    told = [
        f"{'.'.join(str(part)[:200] for part in e['loc'])}: {e['msg'][:500]}" for e in found[:_SHOWN_ERRORS]
    ]
    more = f" (and {len(found) - _SHOWN_ERRORS} more)" if len(found) > _SHOWN_ERRORS else ""
    return problem(422, "; ".join(told) + more)


def _answers(status: int) -> Callable[[Request, Exception], Response]:
    return lambda _, error: problem(status, str(error), getattr(error, "code", None))


_refused = _answers(409)
_unknown = _answers(404)
_unavailable = _answers(503)
