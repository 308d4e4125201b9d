"""The entries: together they use every option, with every value of those that have a list of values."""

from __future__ import annotations

from typing import Any

import tailrace
from matrix.shape import Call, Entry

_EAGER = {"spark.tailrace.join.strategy": "eager"}


def _join(name: str, /, *more: Call, settings: dict[str, str] | None = None, **options: Any) -> Entry:  # noqa: ANN401
    return Entry(
        f"join-{name}",
        (Call("join", {"after": "30 seconds", **options}), *more),
        settings or {},
        {0: {"after": "60 seconds"}},
    )


def _as_of(name: str, /, *more: Call, **options: Any) -> Entry:  # noqa: ANN401
    longer = {0: {"max_age": "60 seconds"}} if "max_age" in options else {}
    return Entry(f"as_of-{name}", (Call("as_of", options), *more), {}, longer)


def _sync(name: str, /, **options: Any) -> Entry:  # noqa: ANN401
    given = {"window": "20 seconds", "sync_delay": "5 seconds"}
    given |= {"left_partition": "part", "right_partition": "part"}
    return Entry(
        f"sync_join-{name}", (Call("sync_join", given | options),), {}, {0: {"window": "60 seconds"}}
    )


_CLICK = Call("Examples.label", {"name": "click", "where": "r_n % 2 = 0", "after": "30 seconds"})
_BUY = Call("Examples.label", {"name": "buy", "where": "r_n % 2 = 1", "after": "20 seconds"})


def _label(**options: Any) -> Call:  # noqa: ANN401
    return Call("Examples.label", {"name": "click", "after": "30 seconds", **options})


def _examples(name: str, /, *calls: Call, **options: Any) -> Entry:  # noqa: ANN401
    sides = ("left", "right", "profile") if any(c.operator.endswith("features") for c in calls) else None
    return Entry(
        f"examples-{name}",
        (Call("examples", options), *calls),
        {},
        {1: {"after": "60 seconds"}},
        sides or ("left", "right"),
    )


def _watermark(name: str, /, *more: Call, **options: Any) -> Entry:  # noqa: ANN401
    given = {"completeness": "100%", **options}
    return Entry(
        f"watermark-{name}", (Call("accurate_watermark", given), *more), sides=("left",), state=False
    )


def _windows(name: str, /, **options: Any) -> Entry:  # noqa: ANN401
    calls = (
        Call("accurate_watermark", {"completeness": "100%"}),
        Call("write_windows", {"window": "10 seconds", **options}),
    )
    return Entry(f"windows-{name}", calls, sides=("left",), state=False)


def _replays(name: str, /, **options: Any) -> Entry:  # noqa: ANN401
    calls = (Call("stream_metadata"), Call("filter_replays", options))
    return Entry(f"replays-{name}", calls, sides=("log",), state=False)


def _recursion(name: str, /, **options: Any) -> Entry:  # noqa: ANN401
    return Entry(f"recursion-{name}", (Call("recursively", options),), sides=("left",), state=False)


_COUNT = Call("count")

ENTRIES: tuple[Entry, ...] = (
    _join("left"),
    _join("before", before="5 seconds", how="left_outer"),
    _join("capped", into="clicks", max_matches=2, before="5 seconds"),
    _join("first", match="first"),
    _join("last", match="last", how="leftouter"),
    _join("nearest", match="nearest", before="5 seconds"),
    _join("mark", on_late="mark"),
    _join("no_late_labels", late_labels=False),
    _join("no_late_labels_mark", late_labels=False, on_late="mark", before="5 seconds"),
    _join("no_late_impressions", late_impressions=False),
    _join("eager_late_impressions", late_impressions=True, settings=_EAGER),
    _join("each_batch", release_every="batch"),
    _join("steps", release_every="20 seconds"),
    _join("closing", idle_timeout="1 hour"),
    _join("closing_mark", idle_timeout="1 hour", on_late="mark"),
    _join("early", early="10 seconds"),
    _join("early_first", early="10 seconds", match="first"),
    _join("horizons", horizons=["5 seconds", "15 seconds"]),
    _join("horizons_before", horizons=["0 seconds", "15 seconds"], before="5 seconds", release_every="batch"),
    _join("horizons_changes", horizons=["5 seconds", "15 seconds"], emit="changes"),
    _join("horizons_late_positives", horizons=["5 seconds", "15 seconds"], emit="late_positives"),
    _join("horizons_defer", horizons=["5 seconds", "15 seconds"], emit="defer"),
    _join("horizons_mark", horizons=["10 seconds"], on_late="mark", idle_timeout="1 hour"),
    _join("decided", match="first", release="decided"),
    _join("decided_mark", match="first", release="decided", on_late="mark"),
    _join("amended", amend_for="20 seconds"),
    _join("amended_mark", amend_for="20 seconds", on_late="mark", max_matches=3),
    _join("amended_horizons", amend_for="20 seconds", horizons=["10 seconds"]),
    _join("amended_closing", amend_for="20 seconds", idle_timeout="1 hour", before="5 seconds"),
    _join("orphans", orphans=True),
    _join("orphans_first", orphans=True, match="first", before="5 seconds", release_every="batch"),
    _join("stalling", on_stall="fail", on_left_stall="pause", stall_after="1 hour"),
    _join("excluding", on_stall="exclude", stall_after="1 hour"),
    _join("excluding_amended", on_left_stall="exclude", stall_after="1 hour", amend_for="20 seconds"),
    _join("failing", on_left_stall="fail", on_stall="exclude", stall_after="1 hour"),
    _join("hot", salted_keys=[1], salt_buckets=2),
    _join("inner", how="inner"),
    _join("inner_before", how="inner", before="5 seconds"),
    _join("inner_mark", how="inner", on_late="mark"),
    _join("inner_no_late_labels", how="inner", before="5 seconds", late_labels=False),
    _join("inner_pairs", how="inner", one_to_one=True),
    _join("inner_hot", how="inner", salted_keys=[1, 2], salt_buckets=3),
    _join("eager", settings=_EAGER),
    _join("eager_before", settings=_EAGER, before="5 seconds", max_matches=2),
    _join("eager_mark", settings=_EAGER, on_late="mark", idle_timeout="1 hour"),
    _join("eager_steps", settings=_EAGER, release_every="20 seconds", match="last"),
    _join("then_as_of", Call("as_of", {"into": "profile", "max_age": "30 seconds"})),
    _as_of("plain"),
    _as_of("aged", max_age="20 seconds"),
    _as_of("delayed", delay="5 seconds", into="profile"),
    _as_of("aged_mark", max_age="20 seconds", delay="5 seconds", on_late="mark"),
    _as_of("closing", idle_timeout="1 hour"),
    _as_of("initial", initial=True),
    _sync("plain"),
    _sync("emit_unmatched", on_unmatched_right="emit"),
    _sync("drop_duplicates", on_duplicate="drop"),
    _sync("mark_duplicates", on_duplicate="mark"),
    _sync("pairs", one_to_one=True),
    _sync("pairs_emit", one_to_one=True, on_unmatched_right="emit", suffix="_r", name="bids"),
    _sync("future_clamp", future_limit="1 hour", on_future="clamp"),
    _sync("future_mark", future_limit="1 hour", on_future="mark"),
    _sync("future_fail", future_limit="2 days", on_future="fail", on_left_stall="pause"),
    _sync("excluding", on_stall="exclude", on_left_stall="fail", stall_after="1 hour", max_buffered=None),
    _sync("closing", idle_timeout="1 hour"),
    _sync("closing_emit", idle_timeout="1 hour", on_unmatched_right="emit"),
    _sync("failing", on_stall="fail", on_left_stall="exclude", stall_after="1 hour"),
    _examples("one_label", _label()),
    _examples("two_labels", _CLICK, _BUY, name="both"),
    _examples("before", _label(before="5 seconds", match="nearest", max_matches=1)),
    _examples("capped", _label(max_matches=2), release_every="batch"),
    _examples("first", _label(match="first", stall_after="1 hour", on_stall="fail")),
    _examples("mark", _CLICK, _BUY, on_late="mark"),
    _examples("pausing", _label(on_stall="pause")),
    _examples("excluding", _label(on_stall="exclude", stall_after="1 hour"), amend_for="20 seconds"),
    _examples("all_excluding", _CLICK, _BUY, on_stall="exclude", stall_after="1 hour"),
    _examples(
        "all_failing",
        _label(),
        Call("Examples.features", {"name": "profile", "on_stall": "pause"}),
        on_stall="fail",
        stall_after="1 hour",
    ),
    _examples(
        "features_failing",
        _label(),
        Call("Examples.features", {"name": "profile", "on_stall": "fail", "stall_after": "1 hour"}),
    ),
    _examples("closing", _CLICK, _BUY, idle_timeout="1 hour"),
    _examples("amended", _CLICK, _BUY, amend_for="20 seconds"),
    _examples("orphans", _CLICK, _BUY, orphans=True),
    _examples("since", _label(since="2026-01-01 12:00:20", match="last")),
    _examples("features", _label(), Call("Examples.features", {"name": "profile"})),
    _examples("features_initial", _label(), Call("Examples.features", {"name": "profile", "initial": True})),
    _examples(
        "features_aged",
        _label(),
        Call("Examples.features", {"name": "profile", "max_age": "30 seconds", "delay": "5 seconds"}),
        on_late="mark",
    ),
    _examples("sample", _CLICK, Call("Examples.sample", {"rates": {"size(click) = 0": 0.5}, "seed": 7})),
    _examples(
        "sample_weight",
        _CLICK,
        _BUY,
        Call("Examples.sample", {"rates": {"size(buy) = 0": 0.25}, "seed": 8, "weight": "w"}),
    ),
    # Rows that all partitions keep, however many there are.
    _examples(
        "sample_ratio",
        _CLICK,
        Call(
            "Examples.sample",
            {"ratio": {"click": 1000}, "over": "30 seconds", "start": 1.0, "seed": 9},
        ),
    ),
    _examples("horizons", _CLICK, _BUY, Call("Examples.horizons", {"horizons": ["5 seconds", "15 seconds"]})),
    *(
        _examples(
            f"horizons_{emit}",
            _CLICK,
            _BUY,
            Call("Examples.horizons", {"horizons": ["10 seconds"], "emit": emit}),
        )
        for emit in ("changes", "late_positives", "defer")
    ),
    _examples("last_touch", _label(attribution=tailrace.last_touch()), Call("last_touch")),
    _examples(
        "first_touch", _label(attribution=tailrace.first_touch(), before="5 seconds"), Call("first_touch")
    ),
    _examples("linear", _label(attribution=tailrace.linear()), Call("linear")),
    _examples("time_decay", _label(attribution=tailrace.time_decay("10 seconds")), Call("time_decay")),
    _examples("position", _label(attribution=tailrace.position(0.4, 0.2, 0.4)), Call("position")),
    _watermark("plain", _COUNT),
    _watermark("roster", _COUNT, hosts=["a", "b"], name="logs"),
    _watermark("idle", _COUNT, idle_after="1 hour", delay="5 seconds"),
    _watermark("future_clamp", _COUNT, future_limit="1 hour", on_future="clamp"),
    _watermark("future_mark", future_limit="1 hour", on_future="mark"),
    _watermark("future_fail", _COUNT, future_limit="2 days", on_future="fail"),
    _watermark("most", _COUNT, completeness="50%"),
    _watermark("stamping", Call("stamp_watermark", {"into": "stamp"})),
    _watermark("stamping_headers", Call("stamp_watermark", {"headers": True})),
    Entry(
        "watermark-stamped",
        (Call("stamped_watermark", {"future_limit": "2 days", "on_future": "fail"}), _COUNT),
        sides=("stamped",),
        state=False,
    ),
    Entry(
        "watermark-stamped_roster",
        (
            Call(
                "stamped_watermark",
                {
                    "partitions": ["0", "1"],
                    "completeness": "99.9%",
                    "future_limit": "1 hour",
                    "on_future": "mark",
                    "delay": "5 seconds",
                    "name": "stamps",
                },
            ),
        ),
        sides=("stamped",),
        state=False,
    ),
    Entry(
        "watermark-join",
        (Call("accurate_watermark", {"completeness": "100%"}), Call("join", {"after": "30 seconds"})),
        longer={1: {"after": "60 seconds"}},
    ),
    _windows("plain"),
    _windows("offset", offset="3 seconds", missing=1),
    _windows("sized", target_file_size="1 MB", into="slot"),
    _windows("clustered", cluster_by=["key"]),
    _windows("closing", idle_timeout="1 hour"),
    _replays("drop"),
    _replays("mark", on_replay="mark", name="clicks"),
    _replays("disorder", disorder=4),
    Entry(
        "replays-sqe",
        (Call("stream_metadata", {"format": "sqe"}), Call("filter_replays", {})),
        sides=("log",),
        state=False,
    ),
    _replays("forgetting", forget_after="1 hour", event_time="at"),
    _recursion("fixpoint", mode="fixpoint"),
    _recursion("auto", depth_column="hop", max_depth=3, on_limit="drop"),
    _recursion("limited", max_rows=100_000, max_depth=50, name="down"),
    _recursion("path", path_columns=["l_n"], on_cycle="drop"),
    _recursion("path_mark", path_columns=["l_n"], on_cycle="mark", depth_column="hop"),
    _recursion("feedback", mode="feedback"),
    _recursion("feedback_depth", mode="feedback", depth_column="hop"),
)

_SERVER = {"server": "", "app": "app", "token": "shown"}
_OF_SHARED_LOGS = {**_SERVER, "logs": "shared"}

# With a server, whose address the run has: the same rows come out as without it.
AT_SERVER: tuple[Entry, ...] = (
    Entry(
        "server-watermark",
        (
            Call(
                "accurate_watermark",
                {"completeness": "100%", **_OF_SHARED_LOGS, "operator": "logs"},
            ),
            _COUNT,
        ),
        sides=("left",),
        state=False,
    ),
    Entry(
        "server-windows",
        (
            Call("accurate_watermark", {"completeness": "100%", **_SERVER}),
            Call(
                "write_windows",
                {"window": "10 seconds", **_SERVER, "operator": "landed", "upstreams": ["source"]},
            ),
        ),
        sides=("left",),
        state=False,
    ),
    Entry(
        "server-stamped",
        (Call("stamped_watermark", {**_OF_SHARED_LOGS, "operator": "stamps"}), _COUNT),
        sides=("stamped",),
        state=False,
    ),
)
