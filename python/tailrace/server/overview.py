"""`tailrace watermarks`: asks a server who holds the watermark back, and prints it."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from tailrace.errors import TailraceServerError
from tailrace.server.times import shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WAIT_SECONDS = 10


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because another server would get the token."""

    def redirect_request(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Refuses."""


_opener = urllib.request.build_opener(_NoRedirects)


def overview(server: str, token: str | None, app: str | None, hosts: int) -> list[dict[str, Any]]:
    """Asks a server for its applications, or for one.

    Args:
        server: its URL.
        token: the bearer token, if it has one.
        app: one application; None takes all.
        hosts: the number of slowest hosts of each.

    Returns:
        Per application the answer of `/v1/apps/NAME`, with `slowest_hosts` out of its `/hosts`.

    Raises:
        TailraceServerError: the server can't be reached or refuses.
    """
    names = [app] if app is not None else [found["app"] for found in _ask(server, "/v1/apps", token)]
    states: list[dict[str, Any]] = []
    for name in names:
        path = f"/v1/apps/{quote(name, safe='')}"
        slowest = _ask(server, f"{path}/hosts?limit={hosts}", token)["hosts"]
        states.append({**_ask(server, path, token), "slowest_hosts": slowest})
    return states


def show(states: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Prints what `overview` found.

    Args:
        states: the result of `overview`.
        as_json: for machines: one JSON array.
    """
    if as_json:
        print(json.dumps(states, indent=2))
    elif states:
        print("\n\n".join("\n".join(_lines(state)) for state in states))
    else:
        print("No application has reported to this server yet.")


def _lines(state: Mapping[str, Any]) -> Iterator[str]:
    yield f"application    {state['app']}"
    yield f"low watermark  {shown_time(state['global_low_watermark'])}, lag {shown_lag(state['lag'])}"
    yield f"held by        {', '.join(state['held_by']) or 'nobody'}"
    if state.get("held_by_clients"):
        yield f"not heard of   {', '.join(state['held_by_clients'])}, whose data is waited for"
    yield ""
    yield from _table(
        ("operator", "kind", "input", "output", "lag", "hosts", "behind", "allowed"),
        [
            (
                *(o["operator"], o["kind"], shown_time(o["input_low_watermark"])),
                *(shown_time(o["output_low_watermark"]), shown_lag(o["lag"])),
                *(_count(o[what]) for what in ("hosts", "hosts_behind", "hosts_allowed")),
            )
            for o in state["topology"]
        ],
    )
    if state["slowest_hosts"]:
        yield ""
        yield from _table(
            ("slowest host", "source", "read up to", "lag", ""),
            [
                (h["host"], h["operator"], shown_time(h["progress"]), shown_lag(h["lag"]), h["state"])
                for h in state["slowest_hosts"]
            ],
        )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _ask(server: str, path: str, token: str | None) -> Any:  # noqa: ANN401  it is JSON
    if not _is_server(server):
        raise TailraceServerError(
            f"{server!r} is no server. Name its URL, for instance http://127.0.0.1:7171.",
            condition="TAILRACE_SERVER_ADDRESS_INVALID",
            parameters={"address": server},
        )
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(server.rstrip("/") + path, headers=headers)  # noqa: S310  checked above
    try:
        with _opener.open(request, timeout=_WAIT_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            elsewhere = error.headers.get("Location")
            reason = f"it says to ask {elsewhere}" if elsewhere else _reason(error.read())
        raise TailraceServerError(
            f"The watermark server {server} refuses ({error.code}): {reason}.",
            condition="TAILRACE_SERVER_REFUSED",
            parameters={"server": server, "status": str(error.code)},
        ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", str(error) or type(error).__name__)
        raise TailraceServerError(
            f"The watermark server {server} can't be asked: {reason!s:.300}. Check the "
            "URL, and that `tailrace watermark-server` runs there.",
            condition="TAILRACE_SERVER_UNREACHABLE",
            parameters={"server": server},
        ) from error


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # the port
        return False
    named = parts.scheme in {"http", "https"} and bool(parts.hostname) and port != 0
    return named and not any(letter.isspace() for letter in url) and "@" not in parts.netloc


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return "it gives no reason"
