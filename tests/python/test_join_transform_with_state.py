"""PySpark's transformWithState behind the join, on Spark's RocksDB provider, over a restart.

It needs pandas and protobuf, which pyspark doesn't bring along by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row as SparkRow

from streams import Row, Streams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest

pandas = pytest.importorskip("pandas")
pytest.importorskip("google.protobuf")

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SCHEMA = "key long, seen long, labels long"
STATE = "seen long, labels long"


def totals(joined: DataFrame, *, in_pandas: bool) -> DataFrame:
    """The number of groups and labels of each key so far, one row per batch."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor  # noqa: PLC0415 - needs protobuf

    # In here, so that it travels to Python's workers by value: they don't know the tests.
    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:  # noqa: ANN401
            self.sums = handle.getValueState("sums", STATE)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ANN401, ARG002, N802, N803 - Spark's names
            seen, labels = self.sums.get() if self.sums.exists() else (0, 0)
            for row in rows:
                seen += len(row) if in_pandas else 1
                labels += int(row["labels"].map(len).sum()) if in_pandas else len(row["labels"])
            self.sums.update((seen, labels))
            if in_pandas:
                yield pandas.DataFrame({"key": [key[0]], "seen": [seen], "labels": [labels]})
            else:
                yield SparkRow(key=key[0], seen=seen, labels=labels)

        def close(self) -> None:
            pass

    groups = joined.groupBy("key")
    run = groups.transformWithStateInPandas if in_pandas else groups.transformWithState
    return run(Totals(), SCHEMA, "Append", "None")


@pytest.fixture(autouse=True)
def _on_rocksdb(spark: SparkSession) -> Iterator[None]:
    """The only provider of Spark's that transformWithState accepts."""
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield
    spark.conf.set(PROVIDER, before or "")


@pytest.mark.slow
@pytest.mark.parametrize("in_pandas", [True, pytest.param(False, marks=pytest.mark.campaign)])
def test_totals_go_on_after_a_restart(spark: SparkSession, stream_test: StreamTest, in_pandas: bool) -> None:
    streams = Streams(stream_test)
    with streams.query(totals(streams.join(), in_pandas=in_pandas)) as query:
        for step in range(4):
            left = [Row(step * 10 + key, key, step * 60 + key) for key in range(3)]
            streams.add(left, [Row(r.id, r.key, r.second + 5) for r in left if r.key])
            query.run()
            if step == 1:
                query.restart()
        # Rows of the first three steps have come out: the watermark is 10 seconds behind the last one.
        assert {(r["key"], r["seen"], r["labels"]) for r in query.rows()} == {
            (key, step, step if key else 0) for key in range(3) for step in (1, 2, 3)
        }
        names = {
            r["operatorName"]: r["operatorId"]
            for r in spark.read.format("state-metadata").load(str(query.checkpoint)).collect()
        }
        kind = "transformWithStateInPandasExec" if in_pandas else "transformWithStateInPySparkExec"
        assert set(names) == {"tailraceLabelJoin", kind}
        reader = spark.read.format("statestore").option("operatorId", names[kind])
        sums = reader.option("stateVarName", "sums").load(str(query.checkpoint))
        found = sums.select("key.key", "value.seen", "value.labels").collect()
        assert sorted(tuple(r) for r in found) == [(0, 3, 0), (1, 3, 3), (2, 3, 3)]
