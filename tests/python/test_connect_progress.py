"""Tailrace's rows in the progress of a query over Spark Connect: what comes of a server's JSON."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tailrace._bridge import connect_progress

pytestmark = pytest.mark.usefixtures("installed")

NOON_MS = 1_767_268_800_000
# As Spark 4.2.1 sends it.
HOST = {
    "type": "struct",
    "fields": [
        {"name": "host", "type": "string", "nullable": True, "metadata": {}},
        {"name": "progress", "type": "timestamp", "nullable": True, "metadata": {}},
    ],
}
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "hosts", "type": "long", "nullable": True, "metadata": {}},
        {
            "name": "slowest",
            "type": {"type": "array", "elementType": HOST, "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ],
}
ROW = {"values": [2, [{"values": ["a", None], "schema": HOST}, {"values": ["b", NOON_MS], "schema": HOST}]]}


class _Session:
    def __init__(self, zone: str) -> None:
        self._zone = zone

    @property
    def conf(self) -> _Session:
        return self

    def get(self, name: str) -> str:
        assert name == "spark.sql.session.timeZone"
        return self._zone


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamingQueryProgress, "fromJson", StreamingQueryProgress.fromJson)
    connect_progress.install()


def progress(**observed: Any) -> dict[str, Any]:  # noqa: ANN401
    run = "00000000-0000-0000-0000-000000000000"
    told = {
        "id": run,
        "runId": run,
        **dict.fromkeys(("name", "timestamp", "batchId", "batchDuration"), ""),
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "", "numOutputRows": 0, "metrics": {}},
    }
    return {**told, "observedMetrics": {name.replace("_", "."): row for name, row in observed.items()}}


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-01-01 12:00:00"),
        ("Europe/Berlin", "2026-01-01 13:00:00"),
        ("+05:30", "2026-01-01 17:30:00"),
        ("GMT-3", "2026-01-01 09:00:00"),
    ],
)
def test_rows_have_names_and_times_of_the_session(
    monkeypatch: pytest.MonkeyPatch, zone: str, shown: str
) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: _Session(zone))
    found = StreamingQueryProgress.fromJson(progress(tailrace_watermark={**ROW, "schema": SCHEMA}))
    row = found.observedMetrics["tailrace.watermark"]
    assert row.hosts == 2
    assert row.slowest == [{"host": "a", "progress": None}, {"host": "b", "progress": shown}]


def test_other_rows_stay_as_they_are() -> None:
    found = StreamingQueryProgress.fromJson(progress(mine={**ROW, "schema": SCHEMA}, tailrace_x={"n": 1}))
    assert found.observedMetrics["mine"].schema == SCHEMA
    assert found.observedMetrics["tailrace.x"].n == 1


def test_a_progress_without_rows_is_read() -> None:
    told = progress()
    del told["observedMetrics"]
    assert StreamingQueryProgress.fromJson(told).observedMetrics == {}


def test_installed_twice_is_installed_once() -> None:
    read = vars(StreamingQueryProgress)["fromJson"].__func__
    connect_progress.install()
    assert vars(StreamingQueryProgress)["fromJson"].__func__ is read
