"""The guides about other systems: what their blocks define works against stand-ins of those systems."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import pages
from tailrace._installation.ivy import resolve
from tailrace._installation.versions import series
from watermark_servers import SECOND, T, report, running, sink, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA = """{"type": "record", "name": "click", "fields": [
    {"name": "user_id", "type": "long"},
    {"name": "clicked_at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
# Values as a registry's serializers write them: a zero, the schema's id, the body.
_DECODING = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import to_avro

registry, jars = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.jars", jars)
spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
ids = "VALUES (7L, '000000002A'), (8L, '0000000039'), (9L, '0000000001') AS rows(user_id, id)"
rows = spark.sql(f"SELECT *, timestamp'2026-01-01 12:00:09Z' AS clicked_at FROM {ids}")
body = to_avro(f.struct("user_id", "clicked_at"), schema_of(registry, 42))
records = rows.select(f.concat(f.unhex("id"), body).alias("value"))
for row in decoded(records, registry, 42, 57).collect():
    print(*row)
"""


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.path in {"/schemas/ids/42", "/schemas/ids/57"}
        self.send_response(200 if known else 404)
        self.end_headers()
        if known:
            self.wfile.write(json.dumps({"schema": _SCHEMA}).encode())

    def log_message(self, *_: Any) -> None:  # noqa: ANN401
        """Nothing: pytest shows what is printed."""


@contextmanager
def _registry() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.campaign
@pytest.mark.spark("<4.3", reason="Maven Central lacks Spark 4.3's module for Avro")
def test_values_of_a_registry_are_decoded(repository: Path, tmp_path: Path) -> None:
    version = f"{series(pyspark.__version__)}.0"
    modules = [("org.apache.spark", "spark-avro_2.13", version)]
    jars = sorted(map(str, resolve(f"spark-avro-{version}", modules, transitive=False).glob("*.jar")))
    script = tmp_path / "decode.py"
    script.write_text(pages.example(repository, "docs/guides/schema-registry.md", "avro") + _DECODING)
    with _registry() as url:
        line = [sys.executable, str(script), url, ",".join(jars)]
        environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    printed = done.stdout.splitlines()[-2:]
    assert printed == ["7 2026-01-01 12:00:09", "8 2026-01-01 12:00:09"]


def test_a_window_is_landed_when_its_file_is_there(repository: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(pages.example(repository, "docs/guides/schedule.md", "success-file"), names)  # noqa: S102
    start = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    # As `write_windows` names it: the example of the guide about windows checks that it does.
    window = tmp_path / "window_start=20260101T120000Z"
    window.mkdir()
    assert not names["is_landed"](tmp_path, start)
    (window / "_SUCCESS").touch()
    assert names["is_landed"](tmp_path, start)
    assert not names["is_landed"](tmp_path, start + dt.timedelta(hours=1))
    assert names["is_landed"](tmp_path, start.astimezone(dt.timezone(dt.timedelta(hours=2))))


def test_the_server_says_when_a_window_is_complete(repository: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(pages.example(repository, "docs/guides/schedule.md", "server-window"), names)  # noqa: S102
    end = dt.datetime.fromtimestamp(T // SECOND, dt.UTC)
    with running(f"sqlite:///{tmp_path / 'w.db'}") as server:

        def complete() -> bool:
            return bool(names["is_complete"](server.url, "clicks", end))

        assert not complete(), "nobody has reported"
        server.post(report(source({"h": T - SECOND}), sink({"0": T - SECOND})), app="clicks")
        assert not complete()
        server.post(report(source({"h": T}), sink({"0": T})), app="clicks")
        assert complete()
    assert not complete(), "the server is away"
