"""The page: what a browser shows of it, and the pieces that it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from browsers import texts
from tailrace.server.answers import History, HistoryPoint, OperatorState
from tailrace.server.charts import lag_chart, topology
from tailrace.server.page import TEMPLATES, percent
from tailrace.server.times import shown_lag, shown_time
from waiting import wait_for
from watermark_servers import SECOND, ServerProcess, T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

_HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('page') / 'w.db'}") as server:
        yield server


@pytest.mark.campaign
def test_the_page_shows_what_holds_the_watermark_and_stays_live(
    server: ServerProcess, browser: Chrome, tmp_path: Path
) -> None:
    browser.get(server.url)
    assert "No application has reported yet" in texts(browser, "#empty")[0]

    hosts = [f"web-{n:05d}" for n in range(10_000)]
    progress = {host: T + n * SECOND for n, host in enumerate(hosts[1:])}
    window = {"operator": "sink", "start": T - 3_600 * SECOND, "end": T, "expected": 10_000, "passed": 9_999}
    missing = {"missing": [{"host": "web-00000", "progress": None}], "late_rows": 12}
    body = report(source(progress, roster=hosts), sink({"0": T}), windows=[{**window, **missing}])
    server.post(body, app="clicks")
    # The empty page has asked meanwhile, and has become that of the application.
    wait_for(lambda: texts(browser, "g[data-operator]"), "the drawing")

    assert "Held by source, which waits for web-00000." in texts(browser, "#held")
    assert texts(browser, "#summary")[0].startswith("Held by source"), "it is what comes first"
    assert texts(browser, "#global") == ["–"]  # noqa: RUF001  a dash, as it is meant
    assert len(browser.find_elements("css selector", "g[data-operator=source].holds")) == 1
    assert len(browser.find_elements("css selector", "g[data-operator=sink]:not(.holds)")) == 1
    assert len(browser.find_elements("css selector", "#topology path.edge")) == 1
    assert [row.split()[0] for row in texts(browser, "#operators tbody tr")] == ["source", "sink"]
    rows = texts(browser, "#hosts tbody tr")
    assert (len(rows), rows[0].split()) == (15, ["web-00000", "source", "query", "–", "never", "holds"])  # noqa: RUF001
    assert texts(browser, "#found") == ["15 of 10,000 hosts, the slowest first"]
    assert "99.99 %" in texts(browser, "#windows tbody tr")[0]
    assert "web-00000 12" in texts(browser, "#windows tbody tr")[0]
    assert texts(browser, "#overrides .none") == ["Nobody has overridden the rules."]
    assert texts(browser, "nav a[aria-current]") == ["clicks"]

    server.post(report(source({"web-00000": T - 5 * SECOND})), app="clicks")
    shown = "2025-11-21 04:39:55"
    wait_for(lambda: texts(browser, "#global") == [shown], "the new watermark")
    override = {
        "action": "exclude",
        "operator": "source",
        "host": "web-00000",
        "name": "dana",
        "reason": _HOSTILE,
    }
    assert server.request("POST", "/v1/apps/clicks/overrides", override)[0] == 200
    wait_for(
        lambda: any("dana" in row and _HOSTILE in row for row in texts(browser, "#overrides tbody tr")),
        "the decision",
    )
    assert texts(browser, "#hosts tbody tr:first-child .state") == ["excluded"]

    assert texts(browser, "#live") == ["live"]
    picture = tmp_path / "page.png"
    assert browser.save_screenshot(str(picture))
    assert picture.stat().st_size > 50_000
    problems = [
        line
        for line in browser.get_log("browser")  # type: ignore[no-untyped-call]
        if line["level"] in {"SEVERE", "WARNING"}
    ]
    assert problems == []


@pytest.mark.campaign
def test_html_in_names_is_escaped(server: ServerProcess, browser: Chrome) -> None:
    host = {_HOSTILE: T}
    server.post(report(source(host, name=_HOSTILE), sink({"0": T}, upstreams=[_HOSTILE])), app="hostile")
    browser.get(f"{server.url}/?app=hostile")
    assert _HOSTILE in texts(browser, "#hosts tbody th")
    assert browser.find_elements("css selector", "main img") == []
    assert browser.title == "hostile – watermarks"  # noqa: RUF001  a dash, as it is meant


@pytest.mark.campaign
def test_decisions_on_the_page_are_applied_and_audited(server: ServerProcess, browser: Chrome) -> None:
    body = report(source({"h1": T, "h2": T - 60 * SECOND}, roster=["h1", "h2"]), sink({}))
    assert server.request("POST", "/v1/apps/b%20c/reports", body)[0] == 200
    browser.get(f"{server.url}/?app=b%20c")

    def fill(action: str, **fields: str) -> None:
        browser.execute_script(
            """const form = document.getElementById("override");
            form.querySelector("output").textContent = "";
            for (const [name, value] of Object.entries(arguments[0])) {
              form.elements[name].value = value;
              form.elements[name].dispatchEvent(new Event("change", {bubbles: true}));
            }""",
            {"action": action, "operator": "source", "name": "dana", "reason": "disk died", **fields},
        )
        browser.find_element("css selector", "#override > button").click()

    def decide(action: str, **fields: str) -> tuple[str, str]:
        fill(action, **fields)
        wait_for(lambda: texts(browser, "#confirm-what") != [""], "what will happen")
        (what,) = texts(browser, "#confirm-what")
        browser.find_element("css selector", "#confirm-yes").click()
        wait_for(lambda: texts(browser, "#override output") != [""], "an answer")
        return what, texts(browser, "#override output")[0]

    fill("exclude", host="h3")
    wait_for(lambda: texts(browser, "#override output") != [""], "a refusal")
    assert texts(browser, "#override output") == ["'source' has no host 'h3'"]
    what, done = decide("exclude", host="h2")
    assert "stands at 2025-11-21 04:39:00, and without this one at 2025-11-21 04:40:00" in what
    assert done == "done"
    assert decide("include", host="h2")[1] == "done"
    what, done = decide("advance", to="2025-11-21T04:39:59")
    assert "would be advanced to 2025-11-21 04:39:59" in what
    assert done == "done"
    browser.find_element("css selector", "#override > button").click()
    assert browser.find_elements("css selector", "#override input:invalid"), "an empty form isn't sent"
    # Who has second thoughts changes nothing.
    fill("remove", operator="sink")
    wait_for(lambda: texts(browser, "#confirm-what") != [""], "what will happen")
    assert "'sink' is removed, with its 1 reporters" in texts(browser, "#confirm-what")[0]
    browser.find_element("css selector", "#confirm button[value=no]").click()
    wait_for(lambda: texts(browser, "#override output") == ["nothing was changed"], "it is cancelled")
    assert decide("remove", operator="sink")[1] == "done"
    wait_for(lambda: len(texts(browser, "#overrides tbody tr")) == 4, "four decisions")
    assert [row.split()[2:-3] for row in texts(browser, "#overrides tbody tr")] == [
        ["remove", "sink"],
        ["advance", "source", "to", "2025-11-21", "04:39:59"],
        ["include", "source", "h2"],
        ["exclude", "source", "h2"],
    ]
    assert [row.split()[0] for row in texts(browser, "#operators tbody tr")] == ["source"]
    # What can be taken back, or forgotten, is offered.
    for selector, told in (
        ("button[data-action=undo]", "The advance of 'source' to 2025-11-21 04:39:59 is taken back"),
        ("button[data-action=purge]", "'sink' is forgotten for good"),
    ):
        wait_for(lambda at=selector: texts(browser, f"#offers {at}"), "the offer")  # type: ignore[misc]
        browser.find_element("css selector", f"#offers {selector}").click()
        browser.execute_script(
            """const form = document.getElementById("override");
            for (const name of ["name", "reason"]) form.elements[name].value = "a test";"""
        )
        browser.find_element("css selector", "#override > button").click()
        wait_for(lambda text=told: text in texts(browser, "#confirm-what")[0], told)  # type: ignore[misc]
        browser.find_element("css selector", "#confirm-yes").click()
        wait_for(lambda: texts(browser, "#override output") == ["done"], "it is done")
        wait_for(lambda at=selector: not texts(browser, f"#offers {at}"), "the offer is gone")  # type: ignore[misc]
    what, done = decide("purge-app")
    assert "The application 'b c' is forgotten for good" in what
    assert done == "done"
    assert server.request("GET", "/v1/apps/b%20c")[0] == 404
    wait_for(lambda: "there is no application 'b c'" in texts(browser, "#live")[0], "the page says so")


@pytest.mark.campaign
def test_the_page_says_that_the_server_is_gone(browser: Chrome, tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:
        server.post(report(source({"h": T})))
        browser.get(server.url)
        wait_for(lambda: texts(browser, "#live") == ["live"], "the page is live")
    wait_for(lambda: "doesn't answer" in texts(browser, "#live")[0], "the page says that the server is away")


def test_an_unknown_application_has_no_page(server: ServerProcess) -> None:
    assert server.request("GET", "/page.json?app=nobody") == (
        404,
        {"detail": "there is no application 'nobody'"},
    )


def drawn(block: str, **shown: Any) -> str:  # noqa: ANN401  whatever the template takes
    template = TEMPLATES.get_template("sections.html")
    return "".join(template.blocks[block](template.new_context(shown)))


def test_a_chart_of_history_shows_lags_and_is_thinned() -> None:
    assert "History comes with time" in drawn(
        "history", labels={"o1": "count by window"}, chart=lag_chart(History(series={}))
    )
    points = [
        HistoryPoint(at=T + n * SECOND, low_watermark=T + n * SECOND - 90 * SECOND) for n in range(2_000)
    ]
    many = History(series={"": points, **{f"o{n}": points for n in range(20)}})
    svg = drawn("history", labels={"o1": "count by window"}, chart=lag_chart(many))
    assert svg.count("<polyline") == 8
    assert max(line.count(",") for line in svg.split("<polyline")) <= 400
    assert ">1 min 30 s<" in svg
    assert "><bdi>count by window</bdi> (<bdi>o1</bdi>) <" in svg
    assert svg.rindex("<polyline") == svg.index('<polyline class="series s0" data-operator=""')
    assert [text.partition("<")[0] for text in svg.split('y="252">')[1:]] == [
        "UTC",
        "04:50",
        "05:00",
        "05:10",
    ]
    assert f'data-at="{(T + 1_800 * SECOND) // 1_000}"' in svg
    future = History(series={"": [HistoryPoint(at=T + n, low_watermark=T + 10 * SECOND) for n in range(2)]})
    assert "−10.0 s" in drawn("history", labels={"o1": "count by window"}, chart=lag_chart(future))  # noqa: RUF001  a minus, as it is meant


def axis(*lags: int) -> tuple[str | None, list[str], str]:
    """Where the axis of some lags begins if not at zero, its labels from below, and the line's heights."""
    points = [
        HistoryPoint(at=T + n * 10 * SECOND, low_watermark=T + n * 10 * SECOND - lag)
        for n, lag in enumerate(lags)
    ]
    chart = lag_chart(History(series={"": points}))
    assert chart is not None
    heights = [float(point.split(",")[1]) for point in chart.lines[0].points.split()]
    assert all(12 <= height <= chart.height - 44 for height in heights)
    return chart.bottom, [label for _, label in chart.grid], " ".join(f"{height:.0f}" for height in heights)


def test_an_axis_begins_at_zero_unless_that_makes_the_lags_one_flat_line() -> None:
    day, minute = 86_400 * SECOND, 60 * SECOND
    assert axis(90 * SECOND, 10 * SECOND) == (None, ["0 s", "30 s", "1 min", "1 min 30 s"], "12 208")
    assert axis(0, 0)[:2] == (None, ["0 s", "1 s"])
    assert axis(minute, minute)[0] is None
    begins, labels, heights = axis(330 * day + 2 * minute, 330 * day + 7 * minute)
    assert (begins, labels[:2], labels[-1]) == ("330 d 2 min", ["330 d 2 min", "330 d 3 min"], "330 d 7 min")
    assert heights == "232 12"
    assert axis(-10 * SECOND, -9 * SECOND)[1][0] == "−10 s"  # noqa: RUF001  a minus, as it is meant


def test_a_topology_is_drawn_in_layers_with_long_names_cut() -> None:
    def operator(name: str, *upstreams: str) -> OperatorState:
        fields = OperatorState.model_fields
        empty = dict.fromkeys(fields)
        of = {
            "operator": name,
            "kind": "operator",
            "client": "q",
            "reporters": [],
            "upstreams": list(upstreams),
            "reported_at": T,
        }
        return OperatorState.model_validate({**empty, **of})

    app: dict[str, list[str]] = {"held_by": []}
    named = {"b": "query", "a" * 40: "query"}
    boxes = topology([operator("b", "a" * 40, "elsewhere"), operator("a" * 40)])
    svg = drawn("topology", app=app, reported_by=named, drawing=boxes)
    assert "a" * 23 + "…" in svg
    assert svg.count("<path") == 1
    assert svg.index("translate(297") < svg.index("translate(1 ")
    assert "<svg" in drawn("topology", app=app, drawing=topology([]))


@pytest.mark.parametrize(
    ("lag", "text"),
    [
        (None, "never"),
        (0, "0.0 s"),
        (1_500_000, "1.5 s"),
        (61 * SECOND, "1 min 1 s"),
        (3_600 * SECOND, "1 h 0 min"),
        (90_000 * SECOND, "1 d 1 h"),
        (-2 * SECOND, "−2.0 s"),  # noqa: RUF001  a minus, as it is meant
    ],
)
def test_lags_are_shown_with_two_units(lag: int | None, text: str) -> None:
    assert shown_lag(lag) == text


def test_times_are_shown_in_utc() -> None:
    assert shown_time(T) == "2025-11-21 04:40:00"
    assert shown_time(T + 7_000) == "2025-11-21 04:40:00.007"
    assert shown_time(2**53 - 1).startswith("2255-06-05")
    assert shown_time(None) == "–"  # noqa: RUF001  a dash, as it is meant


@pytest.mark.parametrize(
    ("completeness", "text"),
    [
        ("1", "100 %"),
        ("1.0", "100 %"),
        ("0.999", "99.9 %"),
        ("0.5", "50 %"),
        ("0.05", "5 %"),
        ("0.0051", "0.51 %"),
    ],
)
def test_completeness_is_shown_as_it_was_said(completeness: str, text: str) -> None:
    assert percent(completeness) == text
