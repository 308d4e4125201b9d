"""Low watermarks along a topology: each operator's input and output, and the application's own.

    input  = min of the outputs of the upstreams (and, of a source, of the stamps that it starts from)
    output = min of the input and the operator's own bounds
    global = min of the outputs of the sinks, or of the operators with no downstream where there is no sink

None is minus infinity: nothing is known yet. Answers never go back, so each low watermark is at least its
previous answer.

`upstreams` are the operators that each operator reads from, unknown ones too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_NOTHING: Mapping[str, int | None] = MappingProxyType({})


@dataclass(frozen=True)
class Node:
    """An operator as the rules see it.

    Attributes:
        upstreams: names of the operators whose output it reads; they may be unknown still.
        sink: the application's low watermark is that of its sinks.
        bounds_input: low watermarks from outside that its input can't be above: a source's stamps.
        bounds_output: low watermarks that bound its output: of a source's hosts, or of key groups.
        removed: it no longer exists: its readers read from its upstreams.
    """

    upstreams: tuple[str, ...] = ()
    sink: bool = False
    bounds_input: Sequence[int | None] = ()
    bounds_output: Sequence[int | None] = ()
    removed: bool = False

    def muted(self) -> Node:
        """This operator as if it was unknown."""
        return replace(self, bounds_output=[None])


@dataclass(frozen=True)
class LowWatermarks:
    """The low watermarks of an application, in microseconds.

    Attributes:
        inputs: by operator that wasn't removed; None where it has no input or none is known.
        outputs: the same for outputs.
        application: the global one.
    """

    inputs: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    outputs: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    application: int | None = None


def low_watermarks(
    nodes: Mapping[str, Node],
    order: Sequence[str],
    outputs: Mapping[str, int | None] = _NOTHING,
    inputs: Mapping[str, int | None] = _NOTHING,
    told: int | None = None,
) -> LowWatermarks:
    """Computes all low watermarks of an application, in time that grows with its edges.

    Args:
        nodes: its operators by name.
        order: their names, from `sort`.
        outputs: lower bounds of outputs: earlier answers, or a person's decision.
        inputs: lower bounds of inputs.
        told: the lower bound of the global low watermark.
    """
    found = LowWatermarks()
    # Removed operators without a present upstream: they bound nothing.
    boundless: set[str] = set()
    through: dict[str, int | None] = {}
    for name in order:
        node = nodes[name]
        bounds = [*node.bounds_input, *(through.get(up) for up in node.upstreams if up not in boundless)]
        computed = smallest(bounds)
        if node.removed:
            through[name] = computed
            if not bounds:
                boundless.add(name)
            continue
        low = found.inputs[name] = latest(computed, inputs.get(name))
        own = [low, *node.bounds_output] if bounds else node.bounds_output
        through[name] = found.outputs[name] = latest(smallest(own), outputs.get(name))
    application = smallest(found.outputs[name] for name in _ends(nodes, order))
    return LowWatermarks(found.inputs, found.outputs, latest(application, told))


def _ends(nodes: Mapping[str, Node], order: Sequence[str]) -> list[str]:
    present = [name for name, node in nodes.items() if not node.removed]
    sinks = [name for name in present if nodes[name].sink]
    if sinks:
        return sinks
    read: set[str] = set()
    for name in reversed(order):
        if not nodes[name].removed or name in read:
            read.update(nodes[name].upstreams)
    return [name for name in present if name not in read]


def sort(upstreams: Mapping[str, Iterable[str]]) -> list[str]:
    """The known operators, each after its upstreams; they must have no cycle."""
    return [name for name in TopologicalSorter(upstreams).static_order() if name in upstreams]


def below(upstreams: Mapping[str, Iterable[str]], name: str) -> set[str]:
    """An operator, and all that read from it, through others too."""
    readers: dict[str, list[str]] = {}
    for reader, ups in upstreams.items():
        for up in ups:
            readers.setdefault(up, []).append(reader)
    found = {name}
    pending = [name]
    while pending:
        fresh = [reader for reader in readers.get(pending.pop(), ()) if reader not in found]
        found.update(fresh)
        pending.extend(fresh)
    return found


def read_through(
    upstreams: Mapping[str, Sequence[str]], removed: Collection[str], order: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The upstreams of each present operator; a removed one is replaced by its own upstreams."""
    if not removed:
        return {name: tuple(ups) for name, ups in upstreams.items()}
    # Sets are bits of integers: layers of removed operators, each of which reads the whole layer before, have
    # exponentially many paths.
    place: dict[str, int] = {}
    behind: dict[str, int] = {}
    found: dict[str, tuple[str, ...]] = {}
    for name in order:
        bits = 0
        for up in upstreams[name]:
            bits |= behind[up] if up in removed else 1 << place.setdefault(up, len(place))
        if name in removed:
            behind[name] = bits
        elif any(up in removed for up in upstreams[name]):
            found[name] = tuple(other for other, at in place.items() if bits >> at & 1)
        else:
            found[name] = tuple(upstreams[name])
    return {name: found[name] for name in upstreams if name not in removed}


def held_by(upstreams: Mapping[str, Iterable[str]], low: LowWatermarks) -> list[str]:
    """The operators that hold back the global low watermark themselves, not through their upstreams."""

    def holds(name: str) -> bool:
        output = low.outputs.get(name)
        return output is None or (low.application is not None and output <= low.application)

    return [
        name
        for name, ups in upstreams.items()
        if holds(name) and not any(holds(up) for up in ups if up in upstreams)
    ]


def find_cycle(upstreams: Mapping[str, Iterable[str]]) -> list[str] | None:
    """A cycle of operators that read from each other, the first one at both ends; None without any."""
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
    """The maximum number of operators that a row has passed before each operator: 0 for sources."""
    found: dict[str, int] = {}
    for name in sort(upstreams):
        found[name] = max((found[up] + 1 for up in upstreams[name] if up in found), default=0)
    return found
