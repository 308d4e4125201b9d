"""Combinations of options that are refused when the call is made."""

from __future__ import annotations

from typing import Any

import tailrace
from matrix.shape import Call, Refusal

INVALID = "TAILRACE_OPTION_INVALID"
NEEDS = "TAILRACE_OPTION_NEEDS"
CONFLICT = "TAILRACE_OPTION_CONFLICT"
INNER = "TAILRACE_JOIN_OPTION_CONFLICT"


def _join(condition: str, **options: Any) -> Refusal:  # noqa: ANN401
    return _one("join", condition, after="30 seconds", **options)


def _one(operator: str, condition: str, /, **options: Any) -> Refusal:  # noqa: ANN401
    told = "-".join(f"{name}={value}" for name, value in options.items())
    return Refusal(f"{operator}-{told}", (Call(operator, options),), condition)


def _sync(condition: str, **options: Any) -> Refusal:  # noqa: ANN401
    partitions = {"left_partition": "part", "right_partition": "part"}
    return _one("sync_join", condition, window="20 seconds", sync_delay="5 seconds", **partitions, **options)


def _examples(name: str, condition: str, /, *calls: Call, **options: Any) -> Refusal:  # noqa: ANN401
    return Refusal(f"examples-{name}", (Call("examples", options), *calls), condition)


def _label(**options: Any) -> Call:  # noqa: ANN401
    return Call("Examples.label", {"name": "click", "after": "30 seconds", **options})


REFUSALS: tuple[Refusal, ...] = (
    *(
        _join(INNER, how="inner", **option)
        for option in (
            {"match": "first"},
            {"max_matches": 2},
            {"into": "clicks"},
            {"release_every": "batch"},
            {"idle_timeout": "1 hour"},
            {"early": "10 seconds"},
            {"horizons": ["10 seconds"]},
            {"release": "decided"},
            {"amend_for": "1 minute"},
            {"late_impressions": True},
            {"orphans": True},
            {"on_stall": "exclude", "stall_after": "1 hour"},
        )
    ),
    *(
        _join(CONFLICT, orphans=True, **option)
        for option in (
            {"early": "10 seconds"},
            {"horizons": ["10 seconds"]},
            {"amend_for": "1 minute"},
            {"idle_timeout": "1 hour"},
            {"release": "decided", "match": "first"},
            {"salted_keys": [1]},
            {"on_stall": "exclude", "stall_after": "1 hour"},
        )
    ),
    _join(NEEDS, on_stall="fail"),
    _join(CONFLICT, on_stall="exclude", stall_after="1 hour", horizons=["10 seconds"]),
    _join(CONFLICT, on_left_stall="exclude", stall_after="1 hour", early="10 seconds"),
    _join(CONFLICT, on_stall="exclude", stall_after="1 hour", late_labels=False),
    _join(NEEDS, one_to_one=True),
    _join(CONFLICT, how="inner", one_to_one=True, salted_keys=[1]),
    _join(NEEDS, release="decided"),
    _join(NEEDS, release="decided", match="first", before="5 seconds"),
    *(
        _join(CONFLICT, release="decided", match="first", **option)
        for option in (
            {"early": "10 seconds"},
            {"horizons": ["10 seconds"]},
            {"amend_for": "1 minute"},
            {"late_impressions": True},
            {"idle_timeout": "1 hour"},
        )
    ),
    _join(CONFLICT, amend_for="1 minute", late_labels=False),
    _join(CONFLICT, late_impressions=True, match="first", release="decided"),
    _join(INVALID, amend_for="0 seconds"),
    *(_join(NEEDS, emit=emit) for emit in ("changes", "late_positives", "defer")),
    _join(CONFLICT, early="10 seconds", horizons=["5 seconds"]),
    _join(CONFLICT, early="10 seconds", emit="changes"),
    _join(INVALID, horizons=["10 seconds", "5 seconds"]),
    _join(INVALID, horizons=["31 seconds"]),
    _join(INVALID, early="31 seconds"),
    _join(NEEDS, salt_buckets=8),
    _join(INVALID, salted_keys=[1], salt_buckets=1),
    _join(CONFLICT, salted_keys=[1], on_late="mark"),
    _join(INVALID, max_matches=0),
    _join(INVALID, how="outer"),
    _one("as_of", INVALID, on_late="emit"),
    _sync(NEEDS, on_stall="exclude"),
    _sync(NEEDS, on_stall="fail"),
    _sync(NEEDS, on_left_stall="exclude"),
    _sync(NEEDS, on_future="mark"),
    _sync(NEEDS, on_future="fail"),
    _sync(INVALID, on_duplicate="fail"),
    _sync(INVALID, max_buffered=0),
    _examples("no label", "TAILRACE_EXAMPLES_NO_LABEL"),
    _examples(
        "attribution and amend_for",
        CONFLICT,
        _label(attribution=tailrace.linear()),
        amend_for="1 minute",
    ),
    _examples("orphans and amend_for", CONFLICT, _label(), orphans=True, amend_for="1 minute"),
    _examples(
        "orphans and horizons",
        CONFLICT,
        _label(),
        Call("Examples.horizons", {"horizons": ["10 seconds"]}),
        orphans=True,
    ),
    _examples(
        "attribution with before and horizons",
        CONFLICT,
        _label(attribution=tailrace.linear(), before="5 seconds"),
        Call("Examples.horizons", {"horizons": ["10 seconds"]}),
    ),
    _examples("a label that excludes at no time", NEEDS, _label(on_stall="exclude")),
    _examples(
        "a label that excludes, with horizons",
        CONFLICT,
        _label(on_stall="exclude", stall_after="1 hour"),
        Call("Examples.horizons", {"horizons": ["10 seconds"]}),
    ),
    _examples(
        "a label that excludes, with an attribution",
        CONFLICT,
        _label(on_stall="exclude", stall_after="1 hour", attribution=tailrace.linear()),
    ),
    Refusal(
        "examples-features that are excluded",
        (
            Call("examples"),
            _label(),
            Call("Examples.features", {"name": "profile", "on_stall": "exclude", "stall_after": "1 hour"}),
        ),
        "TAILRACE_EXAMPLES_EXCLUDES_FEATURES",
    ),
    _examples("all streams that fail at no time", NEEDS, _label(), on_stall="fail"),
    _examples("a label that fails at no time", NEEDS, _label(on_stall="fail")),
    _examples(
        "horizons behind all windows",
        INVALID,
        _label(),
        Call("Examples.horizons", {"horizons": ["31 seconds"]}),
    ),
    _examples(
        "a ratio and horizons",
        CONFLICT,
        _label(),
        Call("Examples.horizons", {"horizons": ["10 seconds"]}),
        Call("Examples.sample", {"ratio": {"click": 3}, "seed": 7}),
    ),
    _examples(
        "a ratio and amend_for",
        CONFLICT,
        _label(),
        Call("Examples.sample", {"ratio": {"click": 3}, "seed": 7}),
        amend_for="1 minute",
    ),
    _examples(
        "a ratio to no label", INVALID, _label(), Call("Examples.sample", {"ratio": {"buy": 3}, "seed": 7})
    ),
    _examples(
        "a window without a ratio",
        NEEDS,
        _label(),
        Call("Examples.sample", {"rates": {"true": 0.5}, "over": "1 hour", "seed": 7}),
    ),
    _one("accurate_watermark", NEEDS, on_future="mark"),
    _one("accurate_watermark", NEEDS, on_future="fail"),
    _one("accurate_watermark", NEEDS, server="http://127.0.0.1:1"),
    _one("accurate_watermark", NEEDS, app="app"),
    _one("accurate_watermark", NEEDS, token="shown"),  # noqa: S106 - of nobody
    _one("accurate_watermark", NEEDS, operator="source"),
    _one("accurate_watermark", INVALID, completeness="0%"),
    _one("accurate_watermark", INVALID, hosts=[]),
    _one("stamped_watermark", INVALID, partitions=[]),
    _one("stamped_watermark", INVALID, delay="-1 second"),
    Refusal(
        "stamp_watermark-another watermark", (Call("stamp_watermark"),), "TAILRACE_WATERMARK_STAMP_SOURCE"
    ),
    _one("filter_replays", NEEDS, event_time="at"),
    _one("filter_replays", INVALID, disorder=5000),
    _one("recursively", NEEDS, on_cycle="drop"),
    _one("recursively", NEEDS, on_cycle="mark"),
    _one("recursively", NEEDS, on_limit="drop"),
    _one("recursively", INVALID, max_depth=0),
    *(
        Refusal(
            f"write_windows-{name}",
            (Call("accurate_watermark", {"completeness": "100%"}), Call("write_windows", options)),
            condition,
        )
        for name, condition, options in (
            ("offset", INVALID, {"window": "10 seconds", "offset": "10 seconds"}),
            ("upstreams", NEEDS, {"upstreams": ["source"]}),
            ("app", NEEDS, {"app": "app"}),
            ("idle_timeout", INVALID, {"idle_timeout": "soon"}),
            ("operator", NEEDS, {"operator": "sink"}),
            ("format", NEEDS, {"format": "delta"}),
            ("another server", "TAILRACE_WINDOWS_SERVER", {"server": "http://127.0.0.1:1", "app": "app"}),
        )
    ),
)
