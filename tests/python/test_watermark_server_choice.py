"""What a person has chosen to see on the page: which hosts, and which applications."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from tailrace.server.choice import HOSTS, TABS, Choice, tabs_of
from tailrace.server.run import build
from tailrace.server.sections import shown_hosts
from watermark_ledgers import Ledgers, tell
from watermark_servers import T, report, source

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_shows_the_hosts_that_its_address_asks_for(tmp_path: Path) -> None:
    with TestClient(build(f"sqlite:///{tmp_path / 'w.db'}", None), base_url="http://127.0.0.1") as client:
        body = report(source({"web-1": T, "web-2": T + 5, "db-1": T + 5}))
        assert client.post("/v1/apps/app/reports", json=body).status_code == 200
        # A form without a script sends empty fields too.
        assert client.get("/?app=app&search=&state=").status_code == 200
        sections = client.get("/page.json?app=app&search=web-2").json()["sections"]
        assert "web-2" in sections["hosts"]
        assert "web-1" not in sections["hosts"]
        assert "1 of 1 hosts with “<bdi>web-2</bdi>” in the name" in sections["found"]
        assert client.get("/page.json?app=app&state=wrong").status_code == 422


def test_a_page_behind_the_last_one_is_the_last_one(ledgers: Ledgers) -> None:
    ledger = ledgers.make()
    tell(ledger, "q", source({f"h{n:02d}": T + n for n in range(2 * HOSTS + 1)}))
    found = shown_hosts(ledger, Choice("app", page=9))
    assert (found["choice"].page, found["pages"]) == (3, 3)
    assert [host.host for host in found["hosts"].hosts] == [f"h{2 * HOSTS}"]


def test_applications_have_pages_and_the_chosen_one_is_always_shown() -> None:
    names = [f"app-{n:03d}" for n in range(100)]
    first = tabs_of(names, Choice("app-099"))
    assert (len(first.names), first.names[0], first.names[1], first.pages) == (
        TABS + 1,
        "app-099",
        "app-000",
        9,
    )
    last = tabs_of(names, Choice("app-099", apps=99))
    assert (last.page, last.names) == (9, names[8 * TABS :])
    found = tabs_of(names, Choice("app-000", find="P-01"))
    assert (found.found, found.names) == (10, ["app-000", *names[10:20]])


@pytest.mark.parametrize(
    ("choice", "link"),
    [
        (Choice("a b"), "?app=a+b"),
        (Choice("a", "w&b", "not in roster", 2), "?app=a&search=w%26b&state=not+in+roster&page=2"),
        (Choice("a", find="x", apps=3), "?app=a&find=x&apps=3"),
    ],
)
def test_a_link_has_what_was_chosen(choice: Choice, link: str) -> None:
    assert choice.link() == link
    assert choice.link(page=7).endswith("page=7") or "page=7&" in choice.link(page=7)
