"""What a person does on the page outlives its refreshes: searches, pages, selections, focus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from browsers import texts
from waiting import wait_for
from watermark_servers import SECOND, ServerProcess, T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

pytestmark = pytest.mark.campaign


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('refresh') / 'w.db'}") as server:
        yield server


@pytest.fixture
def page(server: ServerProcess, browser: Chrome) -> Chrome:
    progress = {f"web-{n:02d}": T + n * SECOND for n in range(40)}
    server.post(report(source({**progress, "db-7": T + 1}), sink({"0": T + 3_600 * SECOND})))
    for n in range(30):
        server.post(report(source({"h": T})), app=f"other-{n:02d}")
    browser.get(f"{server.url}/?app=app")
    wait_for(lambda: texts(browser, "#live") == ["live"], "the page is live")
    return browser


def await_refreshes(page: Chrome, times: int = 2) -> None:
    """Waits until the page has asked for its parts, and has got them, some times more."""
    count = (
        "return performance.getEntriesByType('resource').filter((e) => e.name.includes('page.json')).length"
    )
    before = page.execute_script(count)
    wait_for(lambda: page.execute_script(count) >= before + times, "the page asks again")


def hosts(page: Chrome) -> list[str]:
    return [row.split()[0] for row in texts(page, "#hosts tbody tr")]


def test_a_search_and_its_page_stay(page: Chrome, server: ServerProcess) -> None:
    assert hosts(page) == ["web-00", "db-7", *(f"web-{n:02d}" for n in range(1, 14))]
    page.find_element("css selector", "#find-hosts input[name=search]").send_keys("WEB")
    wait_for(lambda: "db-7" not in hosts(page), "the search")
    assert texts(page, "#found") == ["15 of 40 hosts with “WEB” in the name, the slowest first"]
    page.find_element("css selector", "#hosts a[data-key=next]").click()
    wait_for(lambda: hosts(page)[:1] == ["web-15"], "the second page")
    server.post(report(source({f"web-{n:02d}": T + 50 * SECOND for n in range(15, 20)})))
    wait_for(lambda: hosts(page)[:1] == ["web-20"], "the second page, five hosts further")
    await_refreshes(page)
    assert hosts(page)[:1] == ["web-20"]
    assert page.find_element("css selector", "#find-hosts input[name=search]").get_property("value") == "WEB"
    # The address has it all: whoever gets it sees the same.
    page.refresh()
    assert hosts(page)[:1] == ["web-20"]
    assert page.find_element("css selector", "#find-hosts input[name=search]").get_property("value") == "WEB"
    page.execute_script(
        """const state = document.querySelector("#find-hosts select");
        state.value = "holds";
        state.dispatchEvent(new Event("input", {bubbles: true}));"""
    )
    wait_for(lambda: hosts(page) == ["web-00"], "the state")


def test_applications_are_found_and_turned_over(page: Chrome) -> None:
    assert len(texts(page, "#apps a")) == 12
    page.find_element("css selector", "#pages_of_apps a[data-key=next]").click()
    wait_for(lambda: "other-12" in texts(page, "#apps a"), "the second page")
    assert texts(page, "#apps a[aria-current]") == ["app"]
    page.find_element("css selector", "#find-apps input[name=find]").send_keys("-29")
    wait_for(lambda: texts(page, "#apps a") == ["app", "other-29"], "the search")
    await_refreshes(page)
    assert texts(page, "#apps a") == ["app", "other-29"]
    page.find_element("css selector", "#apps a:not([aria-current])").click()
    wait_for(lambda: page.title.startswith("other-29"), "the application")


def test_selected_text_stays_selected(page: Chrome, server: ServerProcess) -> None:
    page.execute_script(
        """const cell = document.querySelector("#hosts tbody th");
        getSelection().selectAllChildren(cell);"""
    )
    selected = page.execute_script("return String(getSelection())")
    assert selected
    server.post(report(source({"new": T - 5 * SECOND})))
    wait_for(lambda: "but for the parts with selected text" in texts(page, "#live")[0], "what stands still")
    wait_for(lambda: "waits for new" in texts(page, "#held")[0], "other parts go on")
    await_refreshes(page)
    assert page.execute_script("return String(getSelection())") == selected
    assert hosts(page)[0] != "new"
    page.execute_script("getSelection().removeAllRanges()")
    wait_for(lambda: hosts(page)[0] == "new", "the hosts as they are now")
    wait_for(lambda: texts(page, "#live") == ["live"], "all is live")


def test_focus_and_open_details_stay(page: Chrome, server: ServerProcess) -> None:
    page.execute_script(
        """document.querySelector("#operators details").open = true;
        document.querySelector("#hosts a[data-key=next]").focus();
        window.changes = [];
        document.addEventListener("focusout", () => window.changes.push("focusout"));"""
    )
    server.post(report(source({"newer": T - 9 * SECOND}), source({"h": T}, name="second")))
    wait_for(lambda: hosts(page)[0] == "newer", "the new host")
    wait_for(lambda: len(texts(page, "#operators tbody tr")) == 3, "the new operator")
    await_refreshes(page)
    assert page.execute_script("return document.activeElement.dataset.key") == "next"
    assert page.execute_script("return document.querySelector('#operators details').open") is True
    assert page.execute_script("return window.changes") == [], "a screen reader would begin anew"


def test_rows_whose_names_look_alike_are_not_taken_for_each_other(
    page: Chrome, server: ServerProcess
) -> None:
    def alike(second: int) -> None:
        hosts = ({"c": T + second * SECOND}, "a/b"), ({"b/c": T + second * SECOND}, "a")
        server.post(report(*(source(progress, name=name) for progress, name in hosts)), app="alike")

    alike(0)
    page.get(f"{server.url}/?app=alike")
    for second in range(1, 3):
        alike(second)
        expected = [f"{row} query 2025-11-21 04:40:0{second}" for row in ("b/c a", "c a/b")]
        wait_for(lambda rows=expected: shown(page) == rows, f"both rows: {expected}")  # type: ignore[misc]


def shown(page: Chrome) -> list[str]:
    return [" ".join(row.split()[:5]) for row in texts(page, "#hosts tbody tr")]


def test_a_section_that_is_the_same_isnt_touched(page: Chrome) -> None:
    page.execute_script(
        """window.changed = new Set();
        new MutationObserver((records) => records.forEach((r) => {
          const element = r.target.nodeType === 1 ? r.target : r.target.parentElement;
          window.changed.add(element.closest("[id]").id);
        })).observe(document.body,
          {subtree: true, childList: true, characterData: true, attributes: true});"""
    )
    await_refreshes(page, 3)
    changed = set(page.execute_script("return [...window.changed]"))
    # Ages grow; nothing else does, and what is read out isn't read out again.
    assert not changed & {
        "topology-name",
        "apps",
        "pages_of_apps",
        "found",
        "live",
        "windows",
        "overrides",
        "names",
    }
