"""The pages for people: `/`, which a small script keeps live with `/page.json`, and the API at `/docs`."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup
from starlette.staticfiles import StaticFiles

from tailrace._version import __version__
from tailrace.server import hostpages, views
from tailrace.server.api import known_app, reader_of
from tailrace.server.charts import MAX_SERIES, lag_chart, topology
from tailrace.server.ledger import HISTORY_KEPT, Ledger
from tailrace.server.names import shown_some
from tailrace.server.protocol import Name
from tailrace.server.reading import Reader
from tailrace.server.times import shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tailrace.server.answers import AppState

_HOSTS = 15
_WINDOWS = 12
_OVERRIDES = 10
_TABS = 100
_MISSING = 3
_WARNINGS = 20

router: APIRouter = APIRouter(include_in_schema=False)
AppName = Annotated[Name | None, Query()]


def percent(share: str) -> str:
    """A decimal share, for instance "0.999", in percent: exactly, whatever a double makes of it."""
    return f"{(Decimal(share) * 100).normalize():f} %"


TEMPLATES = Environment(
    loader=PackageLoader("tailrace.server"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS: dict[str, Callable[..., str]] = {
    "time": shown_time,
    "lag": shown_lag,
    "percent": percent,
    "number": "{:,}".format,
    "some": partial(shown_some, most=_MISSING, quoted=False),
    "urlquoted": partial(quote, safe=""),
}
TEMPLATES.filters |= _FILTERS
# OpenAPI leaves out what a route or a type doesn't have.
_DOCS = TEMPLATES.overlay(undefined=Undefined)
_LIMITS = {
    "minimum": "from",
    "maximum": "to",
    "maxLength": "of at most",
    "maxItems": "at most",
    "maxProperties": "at most",
}


def mount_page(api: FastAPI) -> None:
    """Adds the pages and their files."""
    api.include_router(router)
    api.mount("/static", StaticFiles(directory=Path(__file__).with_name("static")), name="static")


@router.get("/")
async def page(request: Request, app: AppName = None) -> HTMLResponse:
    """The page of an application, or of the first one."""
    reader = reader_of(request)
    names = await reader.share("names", lambda ledger: ledger.names())
    chosen = app or next(iter(names), "")
    html = TEMPLATES.get_template("page.html").render(
        app=chosen,
        tabs=dict.fromkeys([*names[:_TABS], *([chosen] if chosen in names else [])]),
        sections=await _sections(reader, chosen) if chosen else None,
        version=__version__,
    )
    return HTMLResponse(html, headers={"Cache-Control": "no-store"})


@router.get("/page.json")
async def sections(request: Request, app: AppName = None) -> Response:
    """The sections of the page as they are now; without an application, the names of all."""
    reader = reader_of(request)
    if app is None:
        names = await reader.share("names", lambda ledger: ledger.names())
        return JSONResponse({"apps": dict.fromkeys(names, "")})
    return JSONResponse({"sections": await _sections(reader, app)})


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The routes and the types of the API."""
    return HTMLResponse(_DOCS.get_template("docs.html").render(request.app.openapi(), limits=_LIMITS.items()))


async def _sections(reader: Reader, name: str) -> dict[str, Markup]:
    # Each open page asks every two seconds; they share one answer.
    return await reader.share(("page", name), lambda ledger: rendered(shown(ledger, name)))


def rendered(shown: dict[str, Any]) -> dict[str, Markup]:
    """The HTML of each section, by the id of its element."""
    template = TEMPLATES.get_template("sections.html")
    context = template.new_context(shown)
    return {name: Markup("".join(block(context))) for name, block in template.blocks.items()}  # noqa: S704  escaped by Jinja


def shown(ledger: Ledger, name: str) -> dict[str, Any]:
    """All values that the sections show of an application.

    Raises:
        UnknownAppError: there is none of this name.
    """
    app = known_app(ledger, name)
    now = ledger.clock()
    state = views.app_state(app, ledger.now(), ledger.limits)
    # Only the history of the operators that the chart shows is read: the slowest.
    slowest = sorted(state.topology, key=lambda o: (o.output_low_watermark or 0, o.operator))
    charted = ["", *(o.operator for o in slowest[:MAX_SERIES])]
    hosts = hostpages.host_page(app, hostpages.Asked(limit=_HOSTS), now, ledger.limits)
    return {
        "app": state,
        "drawing": topology(state.topology),
        "chart": lag_chart(views.history(ledger.records.recent(app, now - HISTORY_KEPT, charted))),
        "hosts": hosts,
        "waits": [h.host for h in hosts.hosts if h.state == "holds"],
        "warnings": [*_warnings(state)][:_WARNINGS],
        "windows": views.window_page(ledger.records.windows(app, None, _WINDOWS, 0)),
        "overrides": views.override_page(ledger.records.audit(app, _OVERRIDES, 0)),
    }


def _warnings(state: AppState) -> Iterator[tuple[str, str]]:
    """Operators whose queries are gone, or were told that something wasn't taken."""
    for operator in state.topology:
        for reporter in operator.reporters:
            if not reporter.live:
                gone = "has ended" if reporter.leaving else "isn't heard of"
                ago = shown_lag(state.at - reporter.heard_at)
                yield operator.operator, f"{reporter.client} {gone} ({ago} ago), and its data still counts"
            for text in reporter.warnings:
                yield operator.operator, text
