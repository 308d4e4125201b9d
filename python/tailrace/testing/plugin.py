"""The fixtures under their former name. pytest finds them in `tailrace_pytest`, which loads no PySpark."""

from __future__ import annotations

from tailrace_pytest import SETTINGS, kafka_broker, stream_test, tailrace_settings, tailrace_spark

__all__ = ["SETTINGS", "kafka_broker", "stream_test", "tailrace_settings", "tailrace_spark"]
