"""What the catalogue is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Operator:
    """A public function, or a method of a definition.

    Attributes:
        name: as a user writes it: "join", "Examples.label".
        function: the function itself.
        inputs: the arguments that say what it works on: DataFrames, keys, columns, folders.
        options: the others, with their defaults.
        scala: the file and the case class with the same options; None if there is none.
        scala_only: fields of the class that Python has in another way.
        of_library: options that need a library, which the matrix has not; `windows_of_library.py` has them.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[str, ...]
    options: Mapping[str, Any]
    scala: tuple[str, str] | None = None
    scala_only: frozenset[str] = frozenset()
    of_library: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Call:
    """A call of an operator with options; what it works on comes from the streams of the run."""

    operator: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """Calls that make one query.

    Attributes:
        name: of the entry, unique.
        calls: in the order in which they are made; the first one has the row that a user looks at.
        settings: of the session, while the query starts.
        longer: what a longer window is: by the number of the call, its other options.
        sides: the streams that it reads.
        state: whether a join of ours keeps rows in a checkpoint.
    """

    name: str
    calls: tuple[Call, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    longer: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    sides: tuple[str, ...] = ("left", "right")
    state: bool = True

    @property
    def operator(self) -> str:
        """The group that `TAILRACE_MATRIX` names: the part of the name before the first hyphen."""
        return self.name.partition("-")[0]

    def has(self, option: str) -> bool:
        """Whether a call has an option."""
        return any(option in call.options for call in self.calls)

    def of(self, operator: str) -> Call | None:
        """The first call of an operator."""
        return next((call for call in self.calls if call.operator == operator), None)

    def with_options(self, changes: Mapping[int, Mapping[str, Any]]) -> Entry:
        """The same entry with other options of some calls."""
        calls = [
            replace(call, options={**call.options, **changes.get(number, {})})
            for number, call in enumerate(self.calls)
        ]
        return replace(self, calls=tuple(calls))


@dataclass(frozen=True)
class Refusal:
    """Calls that are refused when they are made."""

    name: str
    calls: tuple[Call, ...]
    condition: str


@dataclass(frozen=True)
class Equal:
    """The output is that of an uninterrupted run."""


@dataclass(frozen=True)
class Refused:
    """The action is refused by a condition before anything is written, and the query goes on without it."""

    condition: str


@dataclass(frozen=True)
class MayRefuse:
    """Equal, or refused as above: the rows of the seed decide, as the reason says."""

    condition: str
    reason: str


@dataclass(frozen=True)
class NotApplicable:
    """The cell is empty, for this reason."""

    reason: str


Outcome = Equal | Refused | MayRefuse | NotApplicable
