"""A definition as text: its calls, as a user writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# A default isn't shown.
_DEFAULTS = {
    "on_late": "drop",
    "name": "examples",
    "before": "0 seconds",
    "match": "all",
    "on_stall": "pause",
    "delay": "0 seconds",
    "emit": "all",
    "weight": "weight",
    "orphans": False,
}


def shown(options: Mapping[str, object]) -> dict[str, object]:
    """The arguments that don't have their defaults."""
    return {name: value for name, value in options.items() if _DEFAULTS.get(name) != value}


def call_text(method: str, /, *values: object, **named: object) -> str:
    """A call as a user writes it."""
    arguments = [*map(repr, values), *(f"{key}={value!r}" for key, value in named.items())]
    return f"{method}({', '.join(arguments)})"
