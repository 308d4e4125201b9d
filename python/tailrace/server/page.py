"""The pages for people: `/`, which a small script keeps live with `/page.json`, and the API at `/docs`."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup
from starlette.staticfiles import StaticFiles

from tailrace._version import __version__
from tailrace.server import consequences
from tailrace.server.answers import Standing
from tailrace.server.api import known_app, reader_of
from tailrace.server.choice import TABS, Choice, tabs_of
from tailrace.server.names import MAX_NAME, plain, shown_some
from tailrace.server.protocol import Name, OverrideRequest
from tailrace.server.sections import shown, shown_hosts
from tailrace.server.times import shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tailrace.server.reading import Reader

_MISSING = 3
# As far as the API goes: 90,000 hosts. Who looks for one further down searches.
_MOST_PAGES = 6_000

router: APIRouter = APIRouter(include_in_schema=False)
Part = Annotated[str, Query(max_length=MAX_NAME)]
Number = Annotated[int, Query(ge=1, le=_MOST_PAGES)]


def percent(share: str) -> str:
    """A decimal share, for instance "0.999", in percent: exactly, whatever a double makes of it."""
    return f"{(Decimal(share) * 100).normalize():f} %"


def isolated(name: str) -> Markup:
    """A name from a query or a log: whatever its direction, it doesn't reorder the text around it."""
    return Markup("<bdi>{}</bdi>").format(name)


def floored(passed: int, expected: int) -> str:
    """The share of hosts that have passed, in percent: 100.00 % only if all have."""
    hundredths = 10_000 * passed // expected if expected else 10_000
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


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
    "name": isolated,
    "plain": plain,
    "floored": floored,
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


def _choice(
    app: Annotated[Name | None, Query()] = None,
    search: Part = "",
    state: Annotated[Standing | Literal[""], Query()] = "",
    page: Number = 1,
) -> Choice:
    return Choice(app or "", search, state, page)


def _tabs(choice: Annotated[Choice, Depends(_choice)], find: Part = "", apps: Number = 1) -> Choice:
    return replace(choice, find=find, apps=apps)


_Chosen = Annotated[Choice, Depends(_tabs)]


@router.get("/")
async def page(request: Request, choice: _Chosen) -> HTMLResponse:
    """The page of an application, or of the first one."""
    reader = reader_of(request)
    names = await _names(reader)
    choice = replace(choice, app=choice.app or next(iter(names), ""))
    html = TEMPLATES.get_template("page.html").render(
        prefix=request.app.state.prefix,
        # As the browser names this server.
        address=f"{request.url.scheme}://{request.url.netloc}{request.app.state.prefix}",
        choice=choice,
        states=get_args(Standing),
        are_many=len(names) > TABS,
        sections=await _sections(reader, choice, names) if choice.app else None,
        version=__version__,
    )
    return HTMLResponse(html, headers={"Cache-Control": "no-store"})


@router.get("/page.json")
async def sections(request: Request, choice: _Chosen) -> Response:
    """The sections of the page as they are now; without an application, the names of all."""
    reader = reader_of(request)
    names = await _names(reader)
    if not choice.app:
        return JSONResponse({"apps": dict.fromkeys(names, "")})
    return JSONResponse({"sections": await _sections(reader, choice, names)})


@router.post("/consequence.json")
async def consequence(request: Request, app: Annotated[Name, Query()], body: OverrideRequest) -> Response:
    """The consequences of a decision, in words, for the person who is about to send it."""
    text = await reader_of(request).call(
        lambda ledger: consequences.consequence(known_app(ledger, app), body, ledger.now(), ledger.limits)
    )
    return JSONResponse({"text": text})


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """The routes and the types of the API."""
    return HTMLResponse(
        _DOCS.get_template("docs.html").render(
            request.app.openapi(), limits=_LIMITS.items(), prefix=request.app.state.prefix
        )
    )


async def _names(reader: Reader) -> Sequence[str]:
    return await reader.share("names", lambda ledger: ledger.names())


async def _sections(reader: Reader, choice: Choice, names: Sequence[str]) -> dict[str, Markup]:
    # Each open page asks every two seconds. They share what is the same for all, and the hosts with those who
    # have chosen the same.
    same = await reader.share(
        ("page", choice.app), lambda ledger: rendered("sections.html", shown(ledger, choice.app))
    )
    hosts = await reader.share(
        ("hosts", choice), lambda ledger: rendered("chosen.html", shown_hosts(ledger, choice))
    )
    tabs = rendered("tabs.html", {"choice": choice, "tabs": tabs_of(names, choice)})
    return {**same, **hosts, **tabs}


def rendered(template: str, shown: dict[str, Any]) -> dict[str, Markup]:
    """The HTML of each section of a template, by the id of its element."""
    found = TEMPLATES.get_template(template)
    context = found.new_context(shown)
    return {name: Markup("".join(block(context))) for name, block in found.blocks.items()}  # noqa: S704  escaped by Jinja
