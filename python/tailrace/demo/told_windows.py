"""Tells the watermark server of windows that have closed, so that its page shows them."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tailrace.server.failover import Servers

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPERATOR = "source"
_WAIT_SECONDS = 10


def tell_windows(url: str, app: str, windows: Sequence[tuple[int, int]]) -> None:
    """Reports windows with the hosts that had passed their ends by what the server knows of each host.

    Args:
        url: the server's.
        app: the application, which has reported already.
        windows: the start and the end of each, in microseconds since 1970-01-01 UTC.

    Raises:
        TailraceServerError: the server can't be asked.
        OSError: it doesn't take the report.
    """
    if not windows:
        return
    path = f"/v1/apps/{quote(app, safe='')}"
    hosts: list[dict[str, Any]] = Servers(url, None).ask(f"{path}/hosts?operator={_OPERATOR}")["hosts"]
    told = [_told(start, end, hosts) for start, end in windows]
    body = json.dumps({"client": "demo", "operators": [], "windows": told}).encode()
    request = urllib.request.Request(  # noqa: S310  the demo has started this server
        f"{url}{path}/reports", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=_WAIT_SECONDS).close()  # noqa: S310  the same


def _told(start: int, end: int, hosts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    missing = [h for h in hosts if h["progress"] is None or h["progress"] < end]
    return {
        "operator": _OPERATOR,
        "start": start,
        "end": end,
        "expected": len(hosts),
        "passed": len(hosts) - len(missing),
        "missing": [{"host": host["host"], "progress": host["progress"]} for host in missing],
    }
