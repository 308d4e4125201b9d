"""The configurations in which TLC checks the specifications in `jvm/docs/spec`.

Small ones take seconds, and CI checks them; large ones take minutes. Those of a fault must fail: they
show that each invariant can be violated.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPECIFICATIONS = Path(__file__).resolve().parents[2] / "jvm" / "docs" / "spec"


@dataclass(frozen=True)
class Configuration:
    """What TLC is to check.

    Attributes:
        module: the specification.
        name: of this configuration, unique in the module.
        constants: their values, as TLC reads them.
        invariants: what must hold.
        violates: the invariant that TLC must find violated instead; none: all hold.
        is_large: whether only `--large` checks it.
    """

    module: str
    name: str
    constants: dict[str, str]
    invariants: tuple[str, ...]
    violates: str | None = None
    is_large: bool = False

    @property
    def title(self) -> str:
        """The name among those of all modules."""
        return f"{self.module}: {self.name}"

    @property
    def text(self) -> str:
        """The configuration as TLC reads it."""
        constants = [f"  {name} = {value}" for name, value in self.constants.items()]
        invariants = [f"INVARIANT {name}" for name in self.invariants]
        symmetry = ["SYMMETRY Symmetry"] if "Executors" in self.constants else []
        return "\n".join(["SPECIFICATION Spec", "CONSTANTS", *constants, *invariants, *symmetry, ""])


@dataclass(frozen=True)
class _Module:
    """A specification, with the usual values of its constants."""

    name: str
    invariants: tuple[str, ...]
    usual: dict[str, str]

    def holds(
        self, name: str, *, large: bool = False, but: tuple[str, ...] = (), **constants: str
    ) -> Configuration:
        """All invariants hold, `but` those that are not claimed here."""
        invariants = tuple(i for i in self.invariants if i not in but)
        return Configuration(self.name, name, {**self.usual, **constants}, invariants, is_large=large)

    def fails(self, name: str, invariant: str, *, large: bool = False, **constants: str) -> Configuration:
        """An invariant is violated without a mutation: a limit of what is claimed."""
        return Configuration(
            self.name, name, {**self.usual, **constants}, (invariant,), violates=invariant, is_large=large
        )

    def fault(self, fault: str, invariant: str, *, suffix: str = "", **constants: str) -> Configuration:
        """A mutation violates an invariant."""
        named: dict[str, Any] = {**constants, "Fault": f'"{fault}"'}
        return self.fails(fault + suffix, invariant, **named)


_STATE = _Module(
    "StateCommit",
    ("RestartIsPossible", "RowsAreThereOnce", "RollbackIsPossible"),
    {
        "Executors": "{e1, e2}",
        "Attempts": "4",
        "Given": "1",
        "Compactions": "1",
        "FanIn": "1",
        "Format": "1",
        "MinRetained": "1",
        "LeastRetained": "2",
        "Late": "FALSE",
        "Crashes": "FALSE",
        "Lags": "{9}",
        "Inline": "{TRUE}",
        "Fault": '"none"',
    },
)
_LOGS = _Module(
    "BatchLogs",
    ("JudgesAlike", "JudgesByAllBefore", "OneFileABatch", "StartIsPossible"),
    {
        "Kind": '"marks"',
        "Batches": "4",
        "Starts": "3",
        "Retained": "1",
        "Deltas": "1",
        "Rollbacks": "1",
        "Fault": '"none"',
    },
)
_RESCALE = _Module(
    "Rescale",
    ("StateIsThere", "QueryCanStart"),
    {"Commands": "2", "Batches": "2", "Beside": "FALSE", "Fault": '"none"'},
)
_LANDING = _Module(
    "Landing",
    ("LandsOnce", "NothingIsLost", "MarkedIsComplete"),
    {"Batches": "3", "Drivers": "2", "Overlap": "FALSE", "Fault": '"none"'},
)

_KINDS = ("marks", "hosts", "sync")
_BOTH = "{TRUE, FALSE}"
_LEAVING = "{1, 9}"

STATE = (
    _STATE.holds("format 1"),
    _STATE.holds(
        "format 1, files of runs, late tasks, crashes",
        Attempts="3",
        Inline=_BOTH,
        Late="TRUE",
        Crashes="TRUE",
    ),
    _STATE.holds("format 2", Format="2"),
    _STATE.holds("format 2, two retained", Format="2", MinRetained="2"),
    _STATE.holds(
        "format 2, rows leave",
        Format="2",
        Attempts="3",
        Given="2",
        Lags=_LEAVING,
        Late="TRUE",
        Crashes="TRUE",
    ),
    # OwnStore retains two versions in format 1 because of this one.
    _STATE.fails("format 1, one retained", "RestartIsPossible", LeastRetained="1"),
    _STATE.fault("commits before uploads end", "RestartIsPossible", Attempts="3", Inline="{FALSE}"),
    _STATE.fault("one name for all attempts", "RestartIsPossible"),
    _STATE.fault("the newest version counts", "RestartIsPossible", Attempts="3", Format="2"),
    _STATE.fault("purges by the newest manifest", "RestartIsPossible", Given="3"),
    _STATE.fault("purges new runs", "RestartIsPossible", Attempts="3", Inline="{FALSE}"),
    _STATE.fault("adopts what is too old", "RestartIsPossible", Attempts="5", Given="4", Format="2"),
    _STATE.fault("adopts what doesn't fit", "RowsAreThereOnce", Attempts="3"),
    _STATE.fault(
        "adopts after another expiry",
        "RowsAreThereOnce",
        Attempts="3",
        Given="2",
        Lags=_LEAVING,
        Late="TRUE",
    ),
    _STATE.fault(
        "the newest version counts",
        "RollbackIsPossible",
        suffix=", going back",
        Given="3",
        MinRetained="2",
        Format="2",
        Inline="{FALSE}",
    ),
    _STATE.holds(
        "format 1, files of runs, late tasks, crashes, four attempts",
        large=True,
        Inline=_BOTH,
        Late="TRUE",
        Crashes="TRUE",
    ),
    _STATE.holds("format 2, late tasks, crashes", large=True, Format="2", Late="TRUE", Crashes="TRUE"),
    _STATE.holds("format 1, five attempts", large=True, Attempts="5"),
    _STATE.holds(
        "format 2, five attempts, two retained", large=True, Attempts="5", Format="2", MinRetained="2"
    ),
    _STATE.holds(
        "format 1, merges of two runs, rows leave",
        large=True,
        Attempts="5",
        Given="2",
        FanIn="2",
        Lags=_LEAVING,
    ),
    _STATE.holds("format 1, three executors", large=True, Executors="{e1, e2, e3}"),
    _STATE.fails(
        "format 1, going back past a zombie",
        "RollbackIsPossible",
        large=True,
        Attempts="5",
        MinRetained="2",
    ),
)

LOGS = (
    *(_LOGS.holds(kind, Kind=f'"{kind}"') for kind in _KINDS),
    *(
        _LOGS.fault(fault, "StartIsPossible", suffix=f", {kind}", Kind=f'"{kind}"', Retained="2")
        for kind in _KINDS
        for fault in ("writes behind the commit log", "purges by the newest snapshot")
    ),
    _LOGS.fault("counts its own marks", "JudgesByAllBefore"),
    _LOGS.fault("counts its own marks", "JudgesAlike", suffix=", in one of two runs"),
    _LOGS.fault("leaves abandoned files", "OneFileABatch", Kind='"hosts"'),
)

LANDING = (
    _LANDING.holds("one driver after the other", Drivers="3"),
    _LANDING.holds("two drivers at once", Overlap="TRUE"),
    _LANDING.fault("lands without staging", "LandsOnce"),
    _LANDING.fault("deletes the last file first", "LandsOnce"),
    _LANDING.fault("goes on before the files are in their places", "NothingIsLost"),
    _LANDING.fault("does not finish the newest batch", "NothingIsLost", Drivers="3"),
    _LANDING.fault("closes while a batch lands", "MarkedIsComplete"),
    _LANDING.fault("marks without a closing", "MarkedIsComplete"),
    _LANDING.fault("does not look for newer batches", "LandsOnce", Overlap="TRUE"),
    _LANDING.fault("does not look for closings", "MarkedIsComplete", Overlap="TRUE"),
    _LANDING.fault("closes without a look", "MarkedIsComplete", Overlap="TRUE"),
    _LANDING.holds("one driver after the other, four batches", large=True, Batches="4", Drivers="4"),
    _LANDING.holds("two drivers at once, five batches", large=True, Batches="5", Overlap="TRUE"),
    _LANDING.holds(
        "three drivers at once",
        large=True,
        Drivers="3",
        Overlap="TRUE",
        but=("NothingIsLost", "MarkedIsComplete"),
    ),
    _LANDING.fails("three drivers at once, lost", "NothingIsLost", large=True, Drivers="3", Overlap="TRUE"),
    _LANDING.fails(
        "three drivers at once, marked", "MarkedIsComplete", large=True, Drivers="3", Overlap="TRUE"
    ),
)

RESCALE = (
    _RESCALE.holds("one rescaling beside a query", Commands="1", Beside="TRUE"),
    _RESCALE.holds("two rescalings at once"),
    _RESCALE.fault("turns over without a look", "QueryCanStart"),
    _RESCALE.fault("takes back what another one goes on from", "QueryCanStart"),
    _RESCALE.fault("deletes the old state before a batch is done", "StateIsThere", Beside="TRUE"),
    _RESCALE.fails("two rescalings beside a query", "StateIsThere", large=True, Beside="TRUE"),
)

ALL = (*STATE, *LOGS, *LANDING, *RESCALE)
