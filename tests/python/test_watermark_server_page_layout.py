"""The page in narrow and wide windows, in light and dark, and for who doesn't see it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from browsers import shown_at, texts
from waiting import wait_for
from watermark_servers import SECOND, ServerProcess, T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

pytestmark = pytest.mark.campaign

_LONG = "impressions-of-the-european-region-by-publisher"
_SETTINGS: dict[str, Any] = {"idle_after": 3_600 * SECOND, "completeness": "0.99999"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('layout') / 'w.db'}") as server:
        yield server


@pytest.fixture(scope="module")
def full(server: ServerProcess, browser: Chrome) -> Chrome:
    """A page with something in each of its sections, and with names as long as they may be."""
    progress = {f"web-{n:05d}.rack-07.eu-central.example.net": T + n * SECOND for n in range(2_000)}
    roster = [*progress, "h" * 200]
    unbroken = "x" * 200
    window = {
        "start": T - 3_600 * SECOND,
        "end": T,
        "expected": 12_345,
        "passed": 12_344,
        "late_rows": 98_765,
    }
    missing = [{"host": f"web-{n:05d}.rack-07.eu-central.example.net", "progress": None} for n in range(9)]
    for n in range(20):
        server.post(report(source({"h": T}), client=f"query-{n}"), app=f"application-{n:02d}")
    server.post(
        report(
            source({**progress}, roster=roster, **_SETTINGS),
            source(progress, name=_LONG, label=f"source {_LONG} (Kafka: {_LONG})"[:100]),
            source({"h" * 200: T}, name=unbroken),
            {
                "operator": "join",
                "kind": "operator",
                "label": "join on user_id, item_id",
                "upstreams": ["source", _LONG],
                "low_watermarks": {"0": T},
            },
            sink({"0": T}, upstreams=["join", unbroken], label="x" * 100),
            windows=[{**window, "operator": name, "missing": missing} for name in ("sink", unbroken)],
            client=f"the query of {'q' * 180}",
        ),
        app="full",
    )
    for decision in (
        {"action": "exclude", "operator": "source", "host": "h" * 200},
        {"action": "advance", "operator": unbroken, "to": T + 1, "confirm": True},
        {"action": "remove", "operator": "join"},
    ):
        said = {"name": "d" * 200, "reason": f"because of {'r' * 500}"}
        status, answer = server.request("POST", "/v1/apps/full/overrides", {**decision, **said})
        assert status == 200, answer
    browser.get(f"{server.url}/?app=full")
    wait_for(lambda: texts(browser, "#live") == ["live"], "the page is live")
    return browser


@pytest.mark.parametrize("width", [1_300, 800])
def test_no_table_is_wider_than_its_section(full: Chrome, width: int) -> None:
    with shown_at(full, width):
        assert full.execute_script("return innerWidth") == width
        found: list[dict[str, Any]] = full.execute_script(
            """return [...document.querySelectorAll(".rows, .rows table, body")].map((element) => ({
              what: element.id || element.caption?.textContent || element.nodeName,
              room: element.nodeName === "TABLE" ? element.parentElement.clientWidth : element.clientWidth,
              needed: element.scrollWidth, rows: element.querySelectorAll("tr").length}));"""
        )
    assert len([one for one in found if one["rows"] > 1]) == 11, "five sections with tables, and the body"
    assert [one for one in found if one["needed"] > one["room"]] == []


def test_on_a_phone_wide_tables_are_scrolled_and_the_page_is_not(full: Chrome, server: ServerProcess) -> None:
    full.get(f"{server.url}/?app=full")
    with shown_at(full, 390):
        found: dict[str, list[Any]] = full.execute_script(
            """const regions = [...document.querySelectorAll(".rows, .wide")];
            const page = [innerWidth, document.documentElement.scrollWidth];
            return {page, regions: regions.map((region) => {
              region.scrollLeft = 10_000;
              return [region.id, region.clientWidth, region.scrollWidth, region.scrollLeft, region.tabIndex];
            })};"""
        )
        width, needed = found["page"]
        assert width == 390 >= needed
        scrolled = {
            name: at for name, room, needed, at, tab in found["regions"] if needed > room and tab == 0
        }
        assert {"topology", "operators", "reporters", "hosts", "windows", "overrides"} <= {*scrolled}
        assert all(at > 0 for at in scrolled.values())
        assert problems(full) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["/?app=full", "/docs", "/?app=full&state=excluded&search=h"])
def test_axe_finds_nothing(full: Chrome, server: ServerProcess, page: str, scheme: str) -> None:
    with shown_at(full, 1_300, scheme):
        full.get(server.url + page)
        wait_for(lambda: full.execute_script("return document.readyState === 'complete'"), "the page")
        assert problems(full) == []
        if page == "/?app=full":
            full.find_element("css selector", "button[data-action=undo]").click()
            full.execute_script(
                """const form = document.getElementById("override");
                for (const name of ["name", "reason"]) form.elements[name].value = "a test";"""
            )
            full.find_element("css selector", "#override > button").click()
            wait_for(lambda: texts(full, "#confirm-what") != [""], "what will happen")
            assert problems(full) == []


def test_axe_finds_nothing_on_an_empty_page(
    browser: Chrome, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running(f"sqlite:///{tmp_path_factory.mktemp('empty') / 'w.db'}") as server:
        browser.get(server.url)
        assert problems(browser) == []


def test_the_keyboard_reaches_all_that_can_be_done(full: Chrome, server: ServerProcess) -> None:
    from selenium.webdriver import ActionChains, Keys  # noqa: PLC0415  only where there is a browser

    full.get(f"{server.url}/?app=full")
    reached = []
    for _ in range(80):
        ActionChains(full).send_keys(Keys.TAB).perform()
        now: list[Any] = full.execute_script(
            """const at = document.activeElement, style = getComputedStyle(at);
            return [at.name || at.id || at.dataset.key || at.textContent.trim(), style.outlineStyle,
              parseFloat(style.outlineWidth)];"""
        )
        reached.append(now)
        if now[0] == "metrics":
            break
    names = [name for name, *_ in reached]
    for name in ("find", "topology", "search", "state", "next", "action", "operator", "reason", "metrics"):
        assert name in names, names
    # What has the focus is seen to have it.
    assert [one for one in reached if one[1] == "none" or one[2] < 2] == []


def problems(browser: Chrome) -> list[tuple[str, list[str]]]:
    """What axe-core finds: the rule, and the elements."""
    browser.execute_script((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    found: dict[str, Any] = browser.execute_async_script("axe.run().then(arguments[0])")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]
