"""The page of `tailrace.reconcile`: it shows what differs, and no value of a row is markup."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from reconciled import KEYS, Example, frame
from tailrace._reconciling.counts import LabelCounts, SideCounts, Totals, WindowCounts
from tailrace._reconciling.page import chart, page, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from selenium.webdriver import Chrome

_MINUTE = 60_000_000
_HOSTILE = "</td><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


def _side(rows: int, matched: int) -> SideCounts:
    return SideCounts(rows, matched, matched, float(rows), float(matched))


def _window(number: int, missing: int = 0, explained: int = 0, rows: int = 1000) -> WindowCounts:
    reasons = {("missing", None): missing - explained, ("missing", "late"): explained}
    return WindowCounts(
        number * _MINUTE,
        "compared",
        landed_rows=rows - missing,
        batch_rows=rows,
        missing=missing,
        labels={"click": LabelCounts(_side(rows - missing, 10), _side(rows, 11), 1)},
        reasons={key: count for key, count in reasons.items() if count},
    )


class _Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def _page(windows: Sequence[WindowCounts]) -> _Page:
    return _Page(page(Totals.of(windows), windows, _MINUTE, []))


def test_bars_have_the_heights_of_the_shares() -> None:
    drawn = chart([_window(0, 4, 1), _window(1), _window(2, 8, 8)], _MINUTE)
    assert drawn is not None
    assert [label for _, label in drawn.grid] == ["0", "2", "4", "6", "8"]
    unit = (drawn.grid[0][0] - drawn.grid[-1][0]) / 8
    heights = [(bar.unexplained_height / unit, bar.explained_height / unit) for bar in drawn.bars]
    assert heights == [pytest.approx((3, 1), abs=0.01), (0, 0), pytest.approx((0, 8), abs=0.01)]
    for bar in drawn.bars:
        # The explained ones are on top of the others.
        assert bar.explained_y + bar.explained_height == pytest.approx(bar.unexplained_y)
        assert bar.unexplained_y + bar.unexplained_height == pytest.approx(drawn.bottom)
    assert (drawn.first, drawn.last) == ("1970-01-01 00:00", "1970-01-01 00:03")


@pytest.mark.parametrize("count", [1, 120, 121, 1000])
def test_many_windows_share_bars(count: int) -> None:
    drawn = chart([_window(i, 1 if i == count - 1 else 0) for i in range(count)], _MINUTE)
    assert drawn is not None
    assert len(drawn.bars) <= 120
    assert drawn.bars[-1].x + drawn.bars[-1].width <= drawn.width
    assert [bar.unexplained_height > 0 for bar in drawn.bars] == [False] * (len(drawn.bars) - 1) + [True]


def test_windows_without_rows_and_no_windows_can_be_drawn() -> None:
    assert chart([], _MINUTE) is None
    none = chart([_window(0, rows=0)], _MINUTE)
    assert none is not None
    assert none.bars[0].unexplained_height == 0
    extra = WindowCounts(0, "compared", landed_rows=3, extra=3, reasons={("extra", None): 3})
    drawn = chart([extra], _MINUTE)
    assert drawn is not None
    assert drawn.bars[0].title.startswith("1970-01-01 00:00: 1e+03 per thousand")
    assert extra.per_thousand(3) is None


def test_the_verdict_says_what_a_scheduler_does() -> None:
    def of(*windows: WindowCounts) -> str:
        return verdict(Totals.of(windows))

    assert of() == "No window was compared: none is complete and in the range."
    assert of(_window(0)) == "Equal: 1 windows, 1,000 rows of the batch answer."
    assert of(_window(0, 4, 4)).startswith("Equal but for explained differences")
    assert of(_window(0, 4, 1), _window(1)) == (
        "Different: 2 windows, 2,000 rows of the batch answer, 4 differences, 2 per thousand, 3 of them "
        "unexplained."
    )


def test_windows_that_differ_are_shown_among_very_many() -> None:
    windows = [_window(i, 1 if i == 700 else 0) for i in range(1000)]
    found = _page(windows)
    assert "800 more windows" in found.text
    assert "1970-01-01 11:40" in found.text
    assert len(found.of("rect")) <= 240


@pytest.mark.contract(any_spark=True)
def test_no_value_of_a_row_is_markup(spark: SparkSession, tmp_path: Path) -> None:
    batch = [Example(1, _HOSTILE, 50, None, None, [], []), Example(2, "\u202ea\x00", 50, None, None, [], [])]
    landed = frame(spark, [one._replace(position=3.0) for one in batch]).withColumnRenamed(
        "position", _HOSTILE
    )
    answer = frame(spark, batch).withColumnRenamed("position", _HOSTILE)
    result = tailrace.reconcile(landed, answer, keys=list(KEYS), time="at")
    result.write_html(tmp_path / "page.html")
    found = _Page((tmp_path / "page.html").read_text())
    assert found.of("script") == found.of("img") == []
    assert _HOSTILE in found.text
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name, value in attributes.items():
            assert name != "href"
            assert not re.search(r"url\(|http", value or ""), (tag, name)
    # Nothing is loaded from elsewhere, and keys can be left out.
    (policy,) = (one["content"] for one in found.of("meta") if "http-equiv" in one)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    result.write_html(tmp_path / "page.html", keys=0)
    assert _HOSTILE not in _Page((tmp_path / "page.html").read_text()).text


def test_a_session_without_jinja2_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(tailrace.TailraceError, match=r"needs jinja2, which isn't installed: pip install"):
        page(Totals.of([]), [], _MINUTE, [])


@pytest.mark.campaign
def test_a_phone_shows_it_without_scrolling_sideways(browser: Chrome, tmp_path: Path) -> None:
    windows = [_window(i, i % 3) for i in range(50)]
    keys: list[Any] = []
    file = tmp_path / "page.html"
    file.write_text(page(Totals.of(windows), windows, _MINUTE, keys))
    browser.set_window_size(390, 800)
    browser.get(file.as_uri())
    sizes = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth,"
        " document.querySelector('svg').getBoundingClientRect().width]"
    )
    assert sizes[0] <= sizes[1]
    assert 200 < sizes[2] <= sizes[1]
