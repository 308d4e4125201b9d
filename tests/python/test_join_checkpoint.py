"""A checkpoint belongs to its settings, and a damaged one is never read in part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from streams import Row, Streams, groups, join

if TYPE_CHECKING:
    from tailrace.testing import StreamTest

END = ([Row(900, 9, 1000)], [Row(900, 9, 1000)])


@pytest.fixture
def streams(stream_test: StreamTest) -> Streams:
    streams = Streams(stream_test)
    streams.add([Row(1, 1, 100), Row(2, 2, 100)], [Row(11, 1, 110), Row(12, 2, 111)])
    return streams


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"after": "29 seconds"}, "after"),
        ({"before": "1 second"}, "before"),
        ({"how": "inner"}, "how"),
        ({"on": [("l_id", "r_id")]}, "on (left)"),
    ],
)
def test_other_settings_are_refused_by_name(streams: Streams, options: dict[str, Any], changed: str) -> None:
    with streams.query(streams.join()) as query:
        query.run()
        streams.add(*END)
        query.restart(streams.join(**options))
        with pytest.raises(StreamingQueryException) as caught:
            query.run()
        assert "TAILRACE_CHECKPOINT_INCOMPATIBLE" in str(caught.value)
        assert f"`{changed}`" in str(caught.value)


def test_another_column_type_is_refused_by_name(streams: Streams) -> None:
    with streams.query(streams.join()) as query:
        query.run()
        streams.add(*END)
        changed = streams.frame("right").selectExpr("r_id", "key", "r_ts", "cast(null as int) as r_note")
        query.restart(join(streams.frame("left"), changed))
        with pytest.raises(StreamingQueryException, match="TAILRACE_CHECKPOINT_INCOMPATIBLE"):
            query.run()


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
def test_a_damaged_file_of_the_state_stops_the_query_and_is_named(streams: Streams, damage: str) -> None:
    with streams.query(streams.join()) as query:
        query.run()
        query.stop()
        damaged = []
        for file in (query.checkpoint / "state").rglob("*.manifest"):
            content = bytearray(file.read_bytes())
            # Hadoop's local file system would repair nothing, but notice a flip by its own checksum file.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            if damage == "delete":
                file.unlink()
            else:
                content[len(content) // 2] ^= 0x20
                file.write_bytes(content if damage == "flip" else content[: len(content) // 2])
            # Nothing tells the attempt of a version whose file is gone.
            version = file.name.split(".")[0]
            damaged.append(f"{version}.*.manifest" if damage == "delete" else file.name)
        streams.add(*END)
        query.restart()
        with pytest.raises(StreamingQueryException) as caught:
            query.run()
        text = str(caught.value)
        assert f"TAILRACE_STATE_FILE_{'MISSING' if damage == 'delete' else 'CORRUPT'}" in text
        assert any(name in text for name in damaged)


@pytest.mark.parametrize("version", ["1", "2"])
def test_both_checkpoint_formats_of_spark_survive_a_restart(streams: Streams, version: str) -> None:
    key = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    streams.test.spark.conf.set(key, version)
    try:
        with streams.query(streams.join()) as query:
            query.run()
            query.restart()
            streams.add(*END)
            query.run()
            assert groups(query.rows()) == [(1, [11]), (2, [12])]
    finally:
        streams.test.spark.conf.unset(key)
