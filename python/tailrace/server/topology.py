"""Low watermarks along a topology: each operator's input and output, and the application's own.

    input  = min of the outputs of the upstreams (and, of a source, of the stamps that it starts from)
    output = min of the input and what the operator itself holds back
    global = min of the outputs of the sinks, or of the operators with no downstream where there is no sink

None is minus infinity: nothing is known yet. What was told once is never taken back, so each low watermark is
at least what it was told as, wherever it stands in the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Node:
    """An operator as the rules see it.

    Attributes:
        upstreams: names of the operators whose output it reads; they may be unknown still.
        sink: the application's low watermark is that of its sinks.
        bounds_input: low watermarks from outside that its input can't be above: a source's stamps.
        bounds_output: what it holds back: a source's completeness rule, another's key groups.
        told_input: the input low watermark that it is known to have had.
        told_output: the output low watermark likewise, or what an operator has advanced it to.
    """

    upstreams: tuple[str, ...] = ()
    sink: bool = False
    bounds_input: Sequence[int | None] = ()
    bounds_output: Sequence[int | None] = ()
    told_input: int | None = None
    told_output: int | None = None


@dataclass(frozen=True)
class LowWatermarks:
    """The low watermarks of an application, in microseconds.

    Attributes:
        inputs: by operator; None where it has no input or nothing is known of it.
        outputs: by operator.
        application: the global one.
    """

    inputs: dict[str, int | None] = field(default_factory=dict)
    outputs: dict[str, int | None] = field(default_factory=dict)
    application: int | None = None


def low_watermarks(nodes: Mapping[str, Node], told: int | None = None) -> LowWatermarks:
    """Computes all low watermarks of an application.

    Args:
        nodes: its operators by name.
        told: the global low watermark that it is known to have had.
    """
    found = LowWatermarks()
    for name in _upstreams_first({name: node.upstreams for name, node in nodes.items()}):
        node = nodes[name]
        bounds = [*node.bounds_input, *(found.outputs.get(upstream) for upstream in node.upstreams)]
        computed = smallest(bounds)
        found.inputs[name] = latest(computed, node.told_input)
        own = [found.inputs[name], *node.bounds_output] if bounds else node.bounds_output
        found.outputs[name] = latest(smallest(own), node.told_output)
    read = {upstream for node in nodes.values() for upstream in node.upstreams}
    ends = [name for name, node in nodes.items() if node.sink] or [n for n in nodes if n not in read]
    application = latest(smallest(found.outputs[name] for name in ends), told)
    return LowWatermarks(found.inputs, found.outputs, application)


def held_by(upstreams: Mapping[str, Iterable[str]], low: LowWatermarks) -> list[str]:
    """The operators that hold the global low watermark back, by themselves and not through their upstreams.

    Args:
        upstreams: of each operator.
        low: from `low_watermarks`.
    """

    def holds(name: str) -> bool:
        output = low.outputs.get(name)
        return output is None or (low.application is not None and output <= low.application)

    return [
        name
        for name, ups in upstreams.items()
        if holds(name) and not any(holds(up) for up in ups if up in upstreams)
    ]


def find_cycle(upstreams: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Finds operators that read from each other in a circle.

    Args:
        upstreams: of each operator.

    Returns:
        Their names, the first one at the end once more; None if there are none.
    """
    try:
        TopologicalSorter(upstreams).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return None


def smallest(bounds: Iterable[int | None]) -> int | None:
    """The min, where None is minus infinity and so is the min of nothing."""
    known: list[int] = []
    for bound in bounds:
        if bound is None:
            return None
        known.append(bound)
    return min(known, default=None)


def latest(one: int | None, other: int | None) -> int | None:
    """The max of two, where None is minus infinity."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def layers(upstreams: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """How many operators a row has passed at most before each operator: 0 for sources.

    Args:
        upstreams: of each operator; names that are no keys don't count.
    """
    found: dict[str, int] = {}
    for name in _upstreams_first(upstreams):
        found[name] = max((found[up] + 1 for up in upstreams[name] if up in found), default=0)
    return found


def _upstreams_first(upstreams: Mapping[str, Iterable[str]]) -> list[str]:
    return [name for name in TopologicalSorter(upstreams).static_order() if name in upstreams]
