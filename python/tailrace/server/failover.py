"""Asks one of several watermark servers, as queries do (see `ServerFailover` in ServerConnection.scala)."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from tailrace.errors import TailraceServerError, clause

_WAIT_SECONDS = 10
_PORTS = {"http": 80, "https": 443}
_FAILS = 500
"""The status from which on an answer says that the server fails, not that it refuses."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because another server would get the token."""

    def redirect_request(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Refuses."""


_opener = urllib.request.build_opener(_NoRedirects)


class _AwayError(Exception):
    """A server has no answer, so that another one may be asked.

    Args:
        told: the error for the user if there is no other one.
    """

    def __init__(self, told: TailraceServerError) -> None:
        super().__init__(str(told))
        self.told = told


class Servers:
    """Servers of one store. The one that answered last is tried first, and the next ones if it is away.

    Args:
        named: a URL, or several separated by commas, in the order in which they are tried.
        token: the bearer token, if they have one.

    Raises:
        TailraceServerError: one isn't a URL, or is named twice.
    """

    def __init__(self, named: str, token: str | None) -> None:
        self._urls = _urls_of(named)
        self._token = token
        self._stores: dict[str, str] = {}

    def ask(self, path: str) -> Any:  # noqa: ANN401  it is JSON
        """The JSON of an answer.

        Args:
            path: with its parameters, from the slash on.

        Raises:
            TailraceServerError: a server refuses, or has another store than one that has answered before; or
                all fail, and it says why each does.
        """
        failed: dict[str, TailraceServerError] = {}
        for url in list(self._urls):
            try:
                found = self._ask(url, path)
            except _AwayError as away:
                failed[url] = away.told
            else:
                # Those that are away come last.
                self._urls = [kept for kept in self._urls if kept not in failed] + list(failed)
                return found
        if len(failed) == 1:
            raise next(iter(failed.values()))
        told = " ".join(Exception.__str__(error) for error in failed.values())
        raise TailraceServerError(
            f"None of the watermark servers {', '.join(failed)} answers. {told}",
            condition="TAILRACE_SERVER_UNREACHABLE",
            parameters={"server": ",".join(failed)},
        )

    def _ask(self, url: str, path: str) -> Any:  # noqa: ANN401  it is JSON
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(url.rstrip("/") + path, headers=headers)  # noqa: S310  checked before
        try:
            with _opener.open(request, timeout=_WAIT_SECONDS) as response:
                self._compare(url, response.headers.get("Tailrace-Store"))
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                self._compare(url, error.headers.get("Tailrace-Store"))
                elsewhere = error.headers.get("Location")
                reason = f"it says to ask {elsewhere}" if elsewhere else _reason(error.read())
            refused = TailraceServerError(
                f"The watermark server {url} refuses ({error.code}): {reason}.",
                condition="TAILRACE_SERVER_REFUSED",
                parameters={"server": url, "status": str(error.code)},
            )
            if error.code >= _FAILS:
                raise _AwayError(refused) from error
            raise refused from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = clause(str(getattr(error, "reason", str(error) or type(error).__name__)))
            away = TailraceServerError(
                f"The watermark server {url} can't be asked: {reason:.300}. Check the "
                "URL, and that `tailrace watermark-server` runs there.",
                condition="TAILRACE_SERVER_UNREACHABLE",
                parameters={"server": url},
            )
            raise _AwayError(away) from error

    def _compare(self, url: str, store: str | None) -> None:
        """A server of an earlier release doesn't say which store it has."""
        if store is None:
            return
        self._stores[url] = store
        for other, known in self._stores.items():
            if known != store:
                raise TailraceServerError(
                    f"The watermark servers {other} and {url} have two stores, {known} and {store}: what "
                    "they say doesn't belong together. Start both with the same --store, or name one.",
                    condition="TAILRACE_SERVER_STORES_DIFFER",
                    parameters={"server": other, "store": known, "another": url, "otherStore": store},
                )


def _urls_of(named: str) -> list[str]:
    places: dict[str, str] = {}
    for url in (part.strip() for part in named.split(",")):
        place = _place(url)
        if place is None:
            raise TailraceServerError(
                f"{url!r} is no server. Name its URL, for instance http://127.0.0.1:7171, or those of "
                "several servers of one store with commas between them.",
                condition="TAILRACE_SERVER_ADDRESS_INVALID",
                parameters={"address": url},
            )
        if place in places:
            raise TailraceServerError(
                f"{places[place]} and {url} are one server. Name each server once.",
                condition="TAILRACE_SERVER_ADDRESS_INVALID",
                parameters={"address": url},
            )
        places[place] = url
    return list(places.values())


def _place(url: str) -> str | None:
    """An address in one spelling; None if it is no address of a server."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # the port
        return None
    named = parts.scheme in _PORTS and bool(parts.hostname) and port != 0
    if not named or any(letter.isspace() for letter in url) or "@" in parts.netloc:
        return None
    return f"{parts.scheme}://{parts.hostname}:{port or _PORTS[parts.scheme]}{parts.path.rstrip('/')}"


def _reason(body: bytes) -> str:
    try:
        return clause(str(json.loads(body)["detail"]))
    except (ValueError, KeyError, TypeError):
        return "it gives no reason"
