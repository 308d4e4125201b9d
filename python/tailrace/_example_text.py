"""A definition of `tailrace.examples` as text: its calls, one a line."""

# A definition's fields are its own and this module's.
# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from tailrace._example_parts import Label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace._example_parts import Features
    from tailrace.examples import Examples

# What is as if nobody had named it isn't shown.
_DEFAULTS = {
    "on_late": "drop",
    "name": "examples",
    "before": "0 seconds",
    "match": "all",
    "on_stall": "pause",
    "delay": "0 seconds",
    "emit": "all",
    "weight": "weight",
}
_NUMBERS = ("max_matches", "seed")
_MICROSECONDS = re.compile(r"(\d+) microseconds")


def text(of: Examples) -> str:
    """The definition without its DataFrames, and without arguments that have their defaults."""
    emit = {"emit": of._options.get("emit", "all")}
    own = {name: value for name, value in of._options.items() if name not in emit}
    calls = [_call("examples", on=of._on, **_named(own))]
    calls += [_part("label", one, of) for one in of._labels]
    calls += [_part("features", one, of) for one in of._features]
    if of._horizons:
        calls.append(_call("horizons", *map(_duration, of._horizons), **_named(emit)))
    if of._sample is not None:
        calls.append(_call("sample", of._sample.rates, **_named(of._sample.options)))
    return "\n    .".join(calls)


def _part(method: str, one: Label | Features, of: Examples) -> str:
    keys = {} if one.on is of._on else {"on": one.on}
    since = {"since": one.since} if isinstance(one, Label) and one.since is not None else {}
    options = {name: value for name, value in one.options.items() if name != "name"}
    return _call(method, one.name, **keys, **_named(options), **since)


def _named(options: Mapping[str, str]) -> dict[str, object]:
    return {
        name: int(value) if name in _NUMBERS else _duration(value)
        for name, value in options.items()
        if _DEFAULTS.get(name) != value
    }


def _duration(value: str) -> object:
    """What a `timedelta` has become is one again; other texts are as they are."""
    found = _MICROSECONDS.fullmatch(value)
    return timedelta(microseconds=int(found[1])) if found else value


def _call(method: str, /, *values: object, **named: object) -> str:
    arguments = [*map(repr, values), *(f"{key}={value!r}" for key, value in named.items())]
    return f"{method}({', '.join(arguments)})"
