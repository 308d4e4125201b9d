"""The notebook runs as it stands, and shows at each time what a calculation by hand gives."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET

import nbformat
import pytest
from nbclient import NotebookClient

if TYPE_CHECKING:
    from pathlib import Path

    from selenium.webdriver import Chrome

NOTEBOOK = "docs/notebooks/which-rows-wait.ipynb"
SVG = "{http://www.w3.org/2000/svg}"
WINDOW, DELAY = 5, 1

NAME = "which-rows-wait"


class Row(NamedTuple):
    comes: int
    stream: str
    happened: int
    name: str


def hm(minute: float) -> str:
    return f"12:{minute:02.0f}"


def times(minutes: list[int]) -> str:
    return ", ".join(map(hm, sorted(minutes))) or "none"


class ByHand:
    """What waits and what is out at a minute, by the definitions of window and watermark alone."""

    def __init__(self, notebook: str) -> None:
        found = re.search(r'ARRIVALS = """\n.*?\n(.*?)"""', notebook, re.DOTALL)
        assert found
        self.rows = [
            Row(int(comes[3:]), stream, int(happened[3:]), f"user {user}, {item}")
            for comes, stream, happened, user, item in map(str.split, found[1].splitlines())
        ]
        self.impressions = [row for row in self.rows if row.stream == "impressions"]
        self.clicks = [row for row in self.rows if row.stream == "clicks"]
        # When time goes on without rows.
        self.end = max(row.comes for row in self.rows) + WINDOW + 2 * DELAY

    def newest(self, stream: str, minute: int) -> float:
        if minute >= self.end:
            return self.end
        come = [row.happened for row in self.rows if row.stream == stream and row.comes <= minute]
        return max(come, default=float("-inf"))

    def watermark(self, minute: int) -> float:
        return min(self.newest(stream, minute) for stream in ("impressions", "clicks")) - DELAY

    def held_by(self, minute: int) -> str:
        streams = ("impressions", "clicks")
        return " and ".join(s for s in streams if self.newest(s, minute) - DELAY == self.watermark(minute))

    def is_late(self, row: Row) -> bool:
        return row.happened <= self.watermark(row.comes - 1)

    def clicks_of(self, impression: Row, minute: int) -> list[int]:
        closes = impression.happened + WINDOW
        return [
            click.happened
            for click in self.clicks
            if click.name == impression.name
            and click.comes <= minute
            and not self.is_late(click)
            and impression.happened <= click.happened <= closes
        ]

    def waits(self, minute: int) -> list[Row]:
        return [
            row
            for row in self.impressions
            if row.comes <= minute and row.happened + WINDOW > self.watermark(minute)
        ]

    def why(self, row: Row, minute: int) -> str:
        closes = row.happened + WINDOW
        window = f"its window {'closes' if closes > minute else 'closed'} at {hm(closes)}"
        if self.watermark(minute) == float("-inf"):
            return f"{window}, and there is no watermark yet: no row of {self.held_by(minute)} has come"
        return f"{window}, the watermark is {hm(self.watermark(minute))}, held by {self.held_by(minute)}"

    def waits_in_words(self, minute: int) -> list[list[str]]:
        return [
            [row.name, hm(row.happened), times(self.clicks_of(row, minute)), self.why(row, minute)]
            for row in self.waits(minute)
        ]

    def out_in_words(self, minute: int) -> list[list[str]]:
        closed = [
            (min(m for m in range(minute + 1) if self.watermark(m) >= row.happened + WINDOW), row)
            for row in self.impressions
            if row.comes <= minute and row not in self.waits(minute)
        ]
        late = [row for row in self.clicks if row.comes <= minute and self.is_late(row)]
        return sorted(
            [
                *(
                    [hm(at), row.name, hm(row.happened), times(self.clicks_of(row, minute)), ""]
                    for at, row in closed
                ),
                *([hm(row.comes), row.name, "none", hm(row.happened), "late_right"] for row in late),
            ]
        )


class Shown:
    """What the notebook shows at a time."""

    def __init__(self, html: str) -> None:
        root = ET.fromstring(f"<div>{html}</div>")  # noqa: S314  of our own notebook
        self.titles = [title.text for title in root.findall("p/b")]
        self.waits, self.out = ([[c.text or "" for c in row] for row in t][1:] for t in root.findall("table"))
        svg = root.find(f"{SVG}svg")
        assert svg is not None
        self.label = svg.get("aria-label")
        self.texts = [text.text or "" for text in svg.iter(f"{SVG}text")]
        self.bars = len(svg.findall(f"{SVG}rect")) - 2  # two are of the legend


@pytest.fixture(scope="module")
def source(repository: Path) -> str:
    return (repository / NOTEBOOK).read_text()


@pytest.fixture(scope="module")
def by_hand(source: str) -> ByHand:
    cells = nbformat.reads(source, as_version=4).cells
    return ByHand("\n".join(cell.source for cell in cells))


@pytest.fixture(scope="module")
def run(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> NotebookClient:
    """The notebook after its run."""
    folder = tmp_path_factory.mktemp("run") / "notebooks"
    shutil.copytree((repository / NOTEBOOK).parent, folder)
    notebook = nbformat.read(repository / NOTEBOOK, as_version=4)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    client.execute(env={**kept, "SPARK_LOCAL_IP": "127.0.0.1"})
    return client


@pytest.fixture(scope="module")
def slider(run: NotebookClient) -> str:
    (output,) = outputs(run, "slider")
    html: str = output["data"]["text/html"]
    return html


@pytest.fixture(scope="module")
def seen(slider: str) -> dict[str, str]:
    """The pictures that the slider shows, by its time."""
    frames = re.findall(r'<div data-frame="([\d:]+)"(?: hidden)?>(.*?)</div>', slider, re.DOTALL)
    return dict(frames)


def outputs(run: NotebookClient, cell: str) -> list[Any]:
    (found,) = [c for c in run.nb.cells if c.id == cell]
    return list(found.outputs)


def test_the_repository_has_no_outputs(source: str) -> None:
    notebook = nbformat.reads(source, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    outputs = [cell.id for cell in code if cell.outputs or cell.execution_count is not None]
    assert outputs == [], "jupyter nbconvert --clear-output --inplace clears them"
    assert len(source) < 100_000


def test_the_stream_has_what_the_text_says(by_hand: ByHand) -> None:
    clicks, end = by_hand.clicks, by_hand.end
    assert len([row for row in clicks if by_hand.is_late(row)]) == 1
    assert not [row for row in by_hand.impressions if by_hand.is_late(row)]
    windows = {(row.name, row.happened + WINDOW) for row in by_hand.impressions}
    assert len([row for row in clicks if (row.name, row.happened - 1) in windows]) == 1
    assert len([row for row in by_hand.impressions if not by_hand.clicks_of(row, end)]) >= 2
    assert {by_hand.held_by(minute) for minute in range(2, 31)} >= {"impressions", "clicks"}
    # Of those that wait at 12:07 one would be out if the watermark were the clock.
    assert {row.happened + WINDOW <= 7 for row in by_hand.waits(7)} == {True, False}
    assert len(by_hand.out_in_words(7)) == 1


@pytest.mark.campaign
def test_the_slider_shows_each_time(seen: dict[str, str], by_hand: ByHand) -> None:
    assert list(seen) == [hm(minute) for minute in range(41)]
    for minute in range(41):
        shown = Shown(seen[hm(minute)])
        assert shown.waits == by_hand.waits_in_words(minute), hm(minute)
        assert sorted(shown.out) == by_hand.out_in_words(minute), hm(minute)


@pytest.mark.campaign
def test_the_timeline_says_the_same(seen: dict[str, str], by_hand: ByHand) -> None:
    for minute in range(41):
        shown = Shown(seen[hm(minute)])
        assert shown.label == f"Timeline at {hm(minute)}"
        assert f"clock {hm(minute)}" in shown.texts
        waits = [f"waits until the watermark is {hm(row.happened + WINDOW)}" for row in by_hand.waits(minute)]
        assert [text for text in shown.texts if text.startswith("waits until")] == waits
        assert shown.bars == len([row for row in by_hand.impressions if row.comes <= minute])
        moved = by_hand.watermark(minute)
        expected = [] if moved == float("-inf") else [f"watermark {hm(moved)}"]
        assert [text for text in shown.texts if re.fullmatch(r"watermark \d\d:\d\d", text)] == expected


@pytest.mark.campaign
def test_the_guide_has_the_picture_of_1207(seen: dict[str, str], repository: Path) -> None:
    # The notebook's `print(timeline(at("12:07")))` draws it anew.
    picture = (repository / "docs/images/which-rows-wait.svg").read_text()
    assert seen["12:07"].startswith(picture.rstrip("\n"))


@pytest.mark.campaign
def test_without_scripts_there_is_no_slider_and_1207_is_shown(slider: str) -> None:
    assert re.findall(r'data-frame="([\d:]+)">', slider) == ["12:07"]
    assert slider.count(" hidden>") == 41, "40 frames, and the slider"
    assert "<p hidden><label>clock <input" in slider


@pytest.mark.campaign
def test_in_a_browser_the_slider_chooses_the_picture(
    slider: str, seen: dict[str, str], browser: Chrome, tmp_path: Path
) -> None:
    page = tmp_path / "slider.html"
    page.write_text(f'<!doctype html><html lang="en"><title>t</title>{slider}</html>')
    browser.get(page.as_uri())
    assert _visible(browser) == ["12:07"]
    keys = browser.find_element("css selector", f"#{NAME} input")
    keys.send_keys("\ue012\ue012")  # twice to the left
    assert _visible(browser) == ["12:05"]
    assert browser.find_element("css selector", f"#{NAME} output").text == "12:05"
    assert keys.get_attribute("aria-valuetext") == "12:05"
    keys.send_keys("\ue010")  # to the end
    assert _visible(browser) == [list(seen)[-1]]


def _visible(browser: Chrome) -> list[str | None]:
    frames = browser.find_elements("css selector", f"#{NAME} [data-frame]")
    return [frame.get_attribute("data-frame") for frame in frames if frame.is_displayed()]


@pytest.mark.campaign
def test_the_record_has_each_micro_batch(run: NotebookClient, by_hand: ByHand) -> None:
    (output,) = outputs(run, "words")
    root = ET.fromstring(f"<div>{output['data']['text/html']}</div>")  # noqa: S314  of our own notebook
    record = [[cell.text for cell in row][:3] for row in root.iter("tr")][1:]
    minutes = sorted({row.comes for row in by_hand.rows} | {by_hand.end})
    assert [row[0] for row in record] == list(map(hm, minutes))
    for (_, watermark, held_by), minute in zip(record, minutes, strict=True):
        moved = by_hand.watermark(minute)
        assert watermark == ("none" if moved == float("-inf") else hm(moved))
        assert held_by == by_hand.held_by(minute)
