"""Every public function that makes a part of a query, with all of its arguments.

An option that is in a signature and not here fails a test, and so does one that no entry sets.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin

import tailrace
from matrix.shape import Operator
from tailrace import options

SCALA = "jvm/src/main/scala/io/tailrace"
# Of the errors of a call that another one makes.
_OF_ERRORS = frozenset({"call", "words"})
_REQUIRED = inspect.Parameter.empty
_AT_SERVER = {"server": None, "app": None, "token": None}
_LOGS = {"logs": None}

OPERATORS: dict[str, Operator] = {
    one.name: one
    for one in (
        Operator(
            "join",
            tailrace.join,
            ("left", "right", "on", "left_time", "right_time"),
            {
                "before": "0 seconds",
                "after": _REQUIRED,
                "how": "left",
                "into": "labels",
                "match": "all",
                "max_matches": None,
                "on_late": "drop",
                "late_labels": None,
                "late_impressions": None,
                "release_every": None,
                "idle_timeout": None,
                "early": None,
                "horizons": None,
                "emit": "all",
                "release": "closed",
                "one_to_one": False,
                "amend_for": None,
                "orphans": False,
                "salted_keys": None,
                "salt_buckets": None,
                "on_stall": "pause",
                "on_left_stall": None,
                "stall_after": None,
            },
            ("label/JoinOptions.scala", "JoinOptions"),
            _OF_ERRORS | {"left_time", "right_time"},
        ),
        Operator(
            "as_of",
            tailrace.as_of,
            ("left", "right", "on", "left_time", "right_time", "initial"),
            {
                "into": "features",
                "max_age": None,
                "delay": "0 seconds",
                "idle_timeout": None,
                "on_late": "drop",
            },
            ("asof/AsOfOptions.scala", "AsOfOptions"),
            _OF_ERRORS | {"left_time", "right_time", "passes_late"},
        ),
        Operator(
            "sync_join",
            tailrace.sync_join,
            ("left", "right", "on", "left_time", "right_time"),
            {
                "window": _REQUIRED,
                "sync_delay": _REQUIRED,
                "left_partition": None,
                "right_partition": None,
                "on_stall": "pause",
                "on_left_stall": None,
                "stall_after": None,
                "future_limit": None,
                "on_future": "clamp",
                "on_duplicate": "emit",
                "on_unmatched_right": "drop",
                "one_to_one": False,
                "max_buffered": 10_000_000,
                "suffix": "_right",
                "idle_timeout": None,
                "name": "sync_join",
            },
            ("sync/SyncOptions.scala", "SyncOptions"),
            frozenset({"left_time", "right_time"}),
        ),
        Operator(
            "examples",
            tailrace.examples,
            ("impressions", "on", "time"),
            {
                "on_late": "drop",
                "release_every": None,
                "idle_timeout": None,
                "amend_for": None,
                "orphans": False,
                "on_stall": "pause",
                "stall_after": None,
                "name": "examples",
            },
            ("examples/ExampleOptions.scala", "ExampleOptions"),
            # Methods of Python's definition.
            frozenset({"time", "sample", "horizons", "emit"}),
        ),
        Operator(
            "Examples.label",
            tailrace.Examples.label,
            ("name", "frame", "time", "on"),
            {
                "where": None,
                "after": _REQUIRED,
                "before": "0 seconds",
                "match": "all",
                "max_matches": None,
                "attribution": None,
                "since": None,
                "on_stall": None,
                "stall_after": None,
            },
            ("examples/ExampleOptions.scala", "ExampleLabel"),
            frozenset({"name", "time", "on"}),
        ),
        Operator(
            "Examples.features",
            tailrace.Examples.features,
            ("name", "frame", "time", "on", "initial"),
            {"max_age": None, "delay": "0 seconds", "on_stall": None, "stall_after": None},
            ("examples/ExampleOptions.scala", "ExampleFeatures"),
            frozenset({"name", "time", "on"}),
        ),
        Operator(
            "Examples.horizons",
            tailrace.Examples.horizons,
            ("horizons",),
            {"emit": "all"},
        ),
        Operator(
            "Examples.sample",
            tailrace.Examples.sample,
            ("rates",),
            {"seed": _REQUIRED, "weight": "weight", "ratio": None, "over": None, "start": None},
            ("examples/ExampleOptions.scala", "ExampleSample"),
            frozenset({"rates"}),
        ),
        Operator("last_touch", tailrace.last_touch, (), {}),
        Operator("first_touch", tailrace.first_touch, (), {}),
        Operator("linear", tailrace.linear, (), {}),
        Operator("time_decay", tailrace.time_decay, ("half_life",), {}),
        Operator("position", tailrace.position, ("first", "middle", "last"), {}),
        Operator(
            "accurate_watermark",
            tailrace.accurate_watermark,
            ("frame", "event_time", "host"),
            {
                "completeness": "99.9%",
                "hosts": None,
                "idle_after": None,
                "future_limit": None,
                "on_future": "clamp",
                "delay": "0 seconds",
                **_AT_SERVER,
                "operator": None,
                **_LOGS,
                "name": "watermark",
            },
            ("watermark/WatermarkOptions.scala", "WatermarkOptions"),
        ),
        Operator(
            "stamped_watermark",
            tailrace.stamped_watermark,
            ("frame", "event_time", "stamp", "partition"),
            {
                "partitions": None,
                "completeness": "100%",
                "future_limit": None,
                "on_future": "clamp",
                "delay": "0 seconds",
                **_AT_SERVER,
                "operator": None,
                **_LOGS,
                "name": "watermark",
            },
        ),
        Operator(
            "stamp_watermark",
            tailrace.stamp_watermark,
            ("frame",),
            {"into": "watermark", "headers": False},
        ),
        Operator(
            "write_windows",
            tailrace.write_windows,
            ("frame", "path", "event_time"),
            {
                "window": "1 hour",
                "offset": "0 seconds",
                "into": "window_start",
                "missing": 10,
                "target_file_size": None,
                "cluster_by": None,
                **_AT_SERVER,
                "operator": None,
                "upstreams": None,
                "idle_timeout": None,
                "format": "parquet",
                "table": None,
            },
            ("windows/WindowOptions.scala", "WindowOptions"),
            of_library=frozenset({"format", "table"}),
        ),
        Operator(
            "filter_replays",
            tailrace.filter_replays,
            ("frame", "key", "pid", "partition", "offset", "order"),
            {
                "disorder": 0,
                "on_replay": "drop",
                "forget_after": None,
                "event_time": None,
                "name": "replays",
            },
            ("replay/ReplayOptions.scala", "ReplayOptions"),
            frozenset({"metadata", "order"}),
        ),
        Operator(
            "stream_metadata",
            tailrace.stream_metadata,
            ("pid", "partition", "offset"),
            {"format": "tagged"},
        ),
        Operator(
            "recursively",
            tailrace.recursively,
            ("frame", "op"),
            {
                "max_depth": None,
                "max_rows": None,
                "on_limit": "fail",
                "depth_column": None,
                "path_columns": None,
                "on_cycle": "fail",
                "mode": "auto",
                "name": "recursion",
            },
            ("recursion/RecursionOptions.scala", "RecursionOptions"),
        ),
    )
}

# What is public and makes no part of a query: commands on checkpoints, measurements, functions of columns.
OTHERS = frozenset(
    {
        *("Attribution", "Backfill", "Examples", "Preflight", "Reason", "Reconciliation"),
        *(name for name in tailrace.__all__ if name.startswith("Tailrace") or name == "__version__"),
        *("configure", "erase", "export_state", "import_state", "rescale", "jar_path"),
        *("label_maturity", "merge_maturity", "preflight", "reconcile", "window_report"),
        # The query is the user's, with any of these operators: `test_backfill.py`.
        "backfill",
        # A session needs a library for it: `tables_of_library.py`.
        "write_table",
        *("merge_stream_metadata", "parse_stream_metadata", "producer_id", "source_partition"),
    }
)


def parameters(operator: Operator) -> dict[str, inspect.Parameter]:
    """The arguments of an operator's signature, by name."""
    found = dict(inspect.signature(operator.function).parameters)
    found.pop("self", None)
    return found


def choices(operator: Operator, name: str) -> tuple[Any, ...]:
    """The values of an argument with a list of them: `OnLate`, `OnStall | None`; empty for any other."""
    annotation = str(parameters(operator)[name].annotation).partition(" ")[0]
    kind = getattr(options, annotation, None)
    return get_args(kind) if get_origin(kind) is Literal else ()
