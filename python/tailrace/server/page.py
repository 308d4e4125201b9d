"""The page at `/`: rendered here, and kept live by a small script that asks for newer parts as JSON."""

from __future__ import annotations

from html import escape
from pathlib import Path
from string import Template
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from tailrace._version import __version__
from tailrace.server import views
from tailrace.server.api import known_app, reader_of
from tailrace.server.chart import MAX_SERIES
from tailrace.server.ledger import HISTORY_KEPT, Ledger
from tailrace.server.protocol import Name
from tailrace.server.reading import Reader
from tailrace.server.sections import Standing, sections

_HOSTS = 15
_WINDOWS = 12
_OVERRIDES = 10
_TABS = 100

_router = APIRouter(include_in_schema=False)
AppName = Annotated[Name | None, Query()]

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="/static/icon.svg">
<link rel="stylesheet" href="/static/page.css">
<script src="/static/page.js" defer></script>
<script src="/static/override.js" defer></script>
</head>
<body data-app="$app">
<header><h1>Watermarks</h1><nav>$tabs</nav><p id="live" role="status"></p></header>
<main>$main</main>
<footer>tailrace $version · all times are UTC · <a href="/docs">API</a> ·
<a href="/metrics">metrics</a></footer>
</body>
</html>
""")

_MAIN = Template("""<section id="summary">$summary</section>
<section><h2>Topology</h2><div id="topology" class="wide">$topology</div></section>
<section><h2>Operators</h2><div id="operators" class="wide">$operators</div></section>
<section><h2>Lag over time</h2><div id="history">$history</div></section>
<section><h2>Slowest hosts</h2><div id="hosts" class="wide">$hosts</div></section>
<section><h2>Latest windows</h2><div id="windows" class="wide">$windows</div></section>
<section><h2>Overrides</h2><div id="overrides" class="wide">$overrides</div>
<form id="override">
<label>action <select name="action"><option value="exclude">exclude host</option>
<option value="include">include host</option><option value="advance">advance to</option>
<option value="undo">undo advance</option><option value="remove">remove operator</option>
<option value="purge">purge operator</option></select></label>
<label>operator <input name="operator" list="names" maxlength="200" required></label>
<label data-for="remove">of one query alone <input name="client" maxlength="200"></label>
<datalist id="names">$names</datalist>
<label data-for="exclude include">host <input name="host" maxlength="200" required></label>
<label data-for="advance">to, UTC <input name="to" type="datetime-local" step="0.001" required></label>
<label>your name <input name="name" maxlength="200" autocomplete="name" required></label>
<label>reason <input name="reason" maxlength="2000" required></label>
<button>Override</button><output></output>
</form></section>
""")

_EMPTY = """<section id="empty"><h2>No application has reported yet</h2>
<p>A query reports here when it is given this server, for instance
<code>tailrace.accurate_watermark(logs, "event_time", host="hostname", server="http://127.0.0.1:7171",
app="clicks", operator="source")</code>. This page follows by itself.</p></section>"""


def mount_page(api: FastAPI) -> None:
    """Adds the page and its files."""
    api.include_router(_router)
    api.mount("/static", StaticFiles(directory=Path(__file__).with_name("static")), name="static")


@_router.get("/")
async def page(request: Request, app: AppName = None) -> HTMLResponse:
    """The page of an application, or of the first one."""
    reader = reader_of(request)
    names = await reader.share("names", lambda ledger: ledger.names())
    chosen = app or next(iter(names), "")
    current = {chosen: " aria-current=page"}
    tabs = "".join(
        f'<a href="/?app={quote(name, safe="")}"{current.get(name, "")}>{escape(name)}</a>'
        for name in dict.fromkeys([*names[:_TABS], *([chosen] if chosen in names else [])])
    )
    main = _EMPTY
    if chosen:
        main = _MAIN.substitute(await _parts(reader, chosen))
    title = escape(f"{chosen} – watermarks" if chosen else "Watermarks")  # noqa: RUF001  a dash, as it is meant
    html = _PAGE.substitute(
        title=title, app=escape(chosen), tabs=tabs, main=main, version=escape(__version__)
    )
    return HTMLResponse(html, headers={"Cache-Control": "no-store"})


@_router.get("/page.json")
async def parts(request: Request, app: AppName = None) -> Response:
    """The parts of the page as they are now; without an application, none as long as there is none."""
    reader = reader_of(request)
    if app is None:
        names = await reader.share("names", lambda ledger: ledger.names())
        return JSONResponse({"apps": dict.fromkeys(names, "")})
    return JSONResponse({"sections": await _parts(reader, app)})


async def _parts(reader: Reader, name: str) -> dict[str, str]:
    # All who have the page open ask every other second: it is worked out once for them.
    return await reader.share(("page", name), lambda ledger: sections(_standing(ledger, name)))


def _standing(ledger: Ledger, name: str) -> Standing:
    app = known_app(ledger, name)
    now = ledger.clock()
    state = views.app_state(app, ledger.now(), ledger.limits)
    # The chart shows the slowest, and theirs alone is read.
    slowest = sorted(state.topology, key=lambda o: (o.output_low_watermark or 0, o.operator))
    charted = ["", *(o.operator for o in slowest[:MAX_SERIES])]
    return Standing(
        app=state,
        hosts=views.host_page(app, None, _HOSTS, 0, now),
        windows=views.window_page(ledger.records.windows(app, None, _WINDOWS, 0)),
        history=views.history(ledger.records.recent(app, now - HISTORY_KEPT, charted)),
        overrides=views.override_page(ledger.records.audit(app, _OVERRIDES, 0)),
    )
