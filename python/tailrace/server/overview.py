"""`tailrace watermarks`: asks a server who holds the watermark back, and prints it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tailrace.commands.terminal import Table, show_parts
from tailrace.server.failover import Servers
from tailrace.server.reporters import shown_holders, shown_query, shown_reads, shown_standing
from tailrace.server.times import shown_lag, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def overview(server: str, token: str | None, app: str | None, hosts: int) -> list[dict[str, Any]]:
    """Asks a server for its applications, or for one.

    Args:
        server: its URL, or the URLs of several servers of one store with commas between them.
        token: the bearer token, if it has one.
        app: one application; None takes all.
        hosts: the number of slowest hosts of each.

    Returns:
        Per application the answer of `/v1/apps/NAME`, with `slowest_hosts` out of its `/hosts`.

    Raises:
        TailraceServerError: no server can be reached, or one refuses.
    """
    servers = Servers(server, token)
    names = [app] if app is not None else [found["app"] for found in servers.ask("/v1/apps")]
    states: list[dict[str, Any]] = []
    for name in names:
        path = f"/v1/apps/{quote(name, safe='')}"
        slowest = servers.ask(f"{path}/hosts?limit={hosts}")["hosts"]
        states.append({**servers.ask(path), "slowest_hosts": slowest})
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
        show_parts(part for number, state in enumerate(states) for part in _parts(state, number))
    else:
        print("No application has reported to this server yet.")


def _parts(state: Mapping[str, Any], number: int) -> Iterator[str | Table]:
    if number:
        yield ""
    yield f"application    {state['app']}"
    yield f"low watermark  {shown_time(state['global_low_watermark'])}, lag {shown_lag(state['lag'])}"
    labels = {o["operator"]: o.get("label") or "" for o in state["topology"]}
    holders = {o["operator"]: _holders(o) for o in state["topology"]}
    held = (f"{name}{holders.get(name, '')}" for name in state["held_by"])
    yield f"held by        {', '.join(held) or 'nobody'}"
    if state.get("held_by_clients"):
        yield f"not heard of   {', '.join(state['held_by_clients'])}, whose data is waited for"
    yield ""
    # Operators of reporters of earlier releases have no words.
    what = ("what it does",) if any(labels.values()) else ()
    yield Table(
        ("operator", *what, "kind", "input", "output", "lag", "hosts", "behind", "allowed"),
        [
            (
                *(o["operator"], *(labels[o["operator"]] for _ in what), o["kind"]),
                *(shown_time(o["input_low_watermark"]), shown_time(o["output_low_watermark"])),
                shown_lag(o["lag"]),
                *(_count(o[what]) for what in ("hosts", "hosts_behind", "hosts_allowed")),
            )
            for o in state["topology"]
        ],
    )
    reporters = [(o["operator"], r) for o in state["topology"] for r in o["reporters"]]
    if any("holds" in r for _, r in reporters):
        yield ""
        yield Table(
            ("query", "operator", "what it does there", "logs", "run", "output", "state"),
            [
                (
                    *(shown_query(r), operator, r["label"] or "", shown_reads(r), r["run"] or "-"),
                    *(shown_time(r["output_low_watermark"]), shown_standing(r)),
                )
                for operator, r in reporters
            ],
        )
    if state["slowest_hosts"]:
        yield ""
        yield Table(
            ("slowest host", "source", "of the query", "read up to", "lag", ""),
            [
                (
                    *(h["host"], h["operator"], ", ".join(h.get("queries", ()))),
                    *(shown_time(h["progress"]), shown_lag(h["lag"]), h["state"]),
                )
                for h in state["slowest_hosts"]
            ],
        )


def _holders(operator: Mapping[str, Any]) -> str:
    """Who holds an operator's low watermark, in brackets; of an earlier server what it does."""
    reporters = operator["reporters"]
    if not any("holds" in reporter for reporter in reporters):
        return f" ({operator['label']})" if operator.get("label") else ""
    found = shown_holders(reporters)
    return f" ({found})" if found else ""


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
