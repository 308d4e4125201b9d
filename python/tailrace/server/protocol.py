"""The JSON of the API, version 1: what is read, with its limits, and what is answered.

All times are microseconds since 1970-01-01 UTC, up to what a double, and so JSON, holds exactly.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tailrace.server.rules import COMPLETENESS, parse_completeness

MAX_TIME = 2**53 - 1
MAX_HOSTS = 100_000
MAX_OPERATORS = 1_000
MAX_KEY_GROUPS = 10_000
MAX_WINDOWS = 1_000
MAX_MISSING = 1_000
MAX_IDLE_NAMED = 100
MAX_NAME = 200

# No control characters, which databases and terminals stumble over. Lone surrogates pydantic refuses itself.
NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]+$"

Time = Annotated[int, Field(ge=0, le=MAX_TIME)]
Count = Annotated[int, Field(ge=0, le=MAX_TIME)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=NAME_PATTERN)]
Kind = Literal["source", "operator", "sink"]


class _Request(BaseModel):
    # Strict: "5", 5.0 and true are no times. An unknown field is a client's mistake, not to be passed over.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class MissingHost(_Request):
    """A host that hadn't passed a window's end when it closed."""

    host: Name
    progress: Time | None = None


class WindowReport(_Request):
    """The completeness of a closed window; reported again when more rows have come late."""

    operator: Name
    start: Time
    end: Time
    expected: Count
    passed: Count
    missing: Annotated[list[MissingHost], Field(max_length=MAX_MISSING)] = []
    late_rows: Count = 0

    @model_validator(mode="after")
    def _makes_sense(self) -> WindowReport:
        if self.start >= self.end:
            raise ValueError("start isn't before end")
        if self.passed > self.expected:
            raise ValueError("more hosts have passed than were expected")
        return self


class OperatorReport(_Request):
    """How far an operator has come. Which fields it has depends on its kind."""

    operator: Name
    kind: Kind
    upstreams: Annotated[list[Name], Field(max_length=MAX_OPERATORS)] = []
    completeness: Annotated[str, Field(pattern=COMPLETENESS)] | None = Field(
        None, description="Of a source: the share of hosts that must have passed, a decimal. Default: 1."
    )
    roster: Annotated[list[Name], Field(max_length=MAX_HOSTS)] | None = Field(
        None, description="Of a source: all its hosts, when new or changed; [] means those seen so far."
    )
    roster_version: Count | None = Field(
        None,
        description="Of a source, optional: grows with each change of the roster, and is sent without one "
        "too. A roster of an older version than the known one is passed over; while the server hasn't the "
        "roster of this version it holds the source's watermark and answers need_roster.",
    )
    idle_after: Annotated[int, Field(ge=1_000, le=MAX_TIME)] | None = Field(
        None,
        description="Of a source: a host whose progress hasn't risen for so many microseconds, by the "
        "server's clock, doesn't count until it rises again. Null: all are waited for.",
    )
    progress: Annotated[dict[Name, Time], Field(max_length=MAX_HOSTS)] = Field(
        {}, description="Of a source: per host the largest event time read; only what has moved is needed."
    )
    input_low_watermark: Time | None = Field(
        None, description="Of a source that starts from an upstream system's stamps."
    )
    low_watermarks: Annotated[dict[Name, Time], Field(max_length=MAX_KEY_GROUPS)] = Field(
        {},
        description="Of an operator or a sink: output low watermark per key group (state partition). One "
        "that holds work back reports all its key groups from its first report on; one without any hands its "
        "input on.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> OperatorReport:
        if self.kind == "source":
            if self.low_watermarks:
                raise ValueError("a source has no key groups")
            parse_completeness(self.completeness or "1")
            if self.roster is not None and len(set(self.roster)) < len(self.roster):
                raise ValueError("the roster names a host twice")
        else:
            of_sources = (
                *(self.completeness, self.roster, self.roster_version),
                *(self.idle_after, self.input_low_watermark),
            )
            if self.progress or any(value is not None for value in of_sources):
                raise ValueError(
                    "completeness, roster, idle_after, progress and input_low_watermark are a source's, "
                    "not an operator's"
                )
            if not self.upstreams:
                raise ValueError("an operator that is no source names the operators upstream of it")
        return self


class Report(_Request):
    """What a client tells of one batch. It may be repeated, reordered, sent to any server of the store."""

    client: Name
    operators: Annotated[list[OperatorReport], Field(max_length=MAX_OPERATORS)] = []
    windows: Annotated[list[WindowReport], Field(max_length=MAX_WINDOWS)] = []

    @model_validator(mode="after")
    def _makes_sense(self) -> Report:
        if len({operator.operator for operator in self.operators}) < len(self.operators):
            raise ValueError("an operator is reported twice")
        return self


class OverrideRequest(_Request):
    """An operator's decision over the rules. It is written to the audit table with its name and reason."""

    action: Literal["advance", "exclude", "include", "remove"] = Field(
        description="advance: the operator's output low watermark, to a time. exclude: a host of a source "
        "stops counting. include: it counts again. remove: the operator, or the whole application, is "
        "retired or has another name; it is back when it is reported again."
    )
    operator: Name | None = Field(None, description="With remove optional: without it all operators.")
    to: Time | None = Field(None, description="With advance.")
    host: Name | None = Field(None, description="With exclude and include.")
    name: Name = Field(description="Who decides.")
    reason: Annotated[str, Field(min_length=1, max_length=2_000, pattern=NAME_PATTERN)]

    @model_validator(mode="after")
    def _makes_sense(self) -> OverrideRequest:
        if self.operator is None and self.action != "remove":
            raise ValueError("`operator` is needed")
        of_host = self.action in {"exclude", "include"}
        if (self.to is not None) != (self.action == "advance") or (self.host is not None) != of_host:
            raise ValueError("advance takes `to`; exclude and include take `host`; remove takes neither")
        return self


class LowWatermark(BaseModel):
    """Null: nothing is known yet, or a source without an input."""

    input_low_watermark: int | None
    output_low_watermark: int | None


class ReportAnswer(BaseModel):
    """What follows of a report; it is in the database when this is sent."""

    operators: dict[str, LowWatermark] = Field(description="Those of the report.")
    global_low_watermark: int | None
    excluded_hosts: dict[str, list[str]]
    idle_hosts: dict[str, list[str]] = Field(
        description=f"Hosts that are silent, and not waited for; of each source at most {MAX_IDLE_NAMED}."
    )
    need_roster: bool = Field(
        description="A source of this report has a roster that the server hasn't: send it, with all progress."
    )


class AppSummary(BaseModel):
    """An application."""

    app: str
    operators: int
    global_low_watermark: int | None
    reported_at: int


class OperatorState(LowWatermark):
    """An operator as it stands. The lag is the server's time less the output low watermark."""

    operator: str
    kind: Kind
    client: str
    upstreams: list[str]
    reported_at: int
    lag: int | None
    completeness: str | None
    hosts: int | None = Field(description="Of a source: how many count.")
    hosts_behind: int | None = Field(
        description="Of a source: how many that count haven't passed its watermark."
    )
    hosts_allowed: int | None = Field(description="Of a source: how many may not have passed.")
    hosts_excluded: int | None
    hosts_idle: int | None = Field(description="Of a source: how many are silent for longer than it waits.")
    has_roster: bool | None
    key_groups: int | None


class AppState(AppSummary):
    """An application as it stands, with all its operators."""

    at: int = Field(description="The server's time.")
    lag: int | None
    held_by: list[str] = Field(
        description="Operators that the global low watermark waits for, and for nothing upstream of them."
    )
    topology: list[OperatorState]


class HostState(BaseModel):
    """A host as it stands. The lag is the server's time less its progress; null if it was never seen."""

    operator: str
    host: str
    progress: int | None
    lag: int | None
    state: Literal["holds", "behind", "passed", "excluded", "idle", "not in roster"] = Field(
        description="holds: the source's output low watermark waits for it. behind: it hasn't passed it, and "
        "completeness allows that. passed: it is ahead. idle: it is silent, and not waited for."
    )


class HostPage(BaseModel):
    """Hosts, the slowest first."""

    total: int
    hosts: list[HostState]


class WindowState(WindowReport):
    """A window's completeness report."""


class WindowPage(BaseModel):
    """Completeness reports, the latest window first."""

    windows: list[WindowState]


class HistoryPoint(BaseModel):
    """A low watermark as it stood."""

    at: int
    low_watermark: int


class History(BaseModel):
    """Output low watermarks over time by operator; the global one under the empty name."""

    series: dict[str, list[HistoryPoint]]


class Override(BaseModel):
    """A line of the audit table."""

    at: int
    action: str
    operator: str = Field(description="Empty: the whole application.")
    to: int | None
    host: str | None
    name: str
    reason: str


class OverridePage(BaseModel):
    """The audit table, the latest first."""

    overrides: list[Override]


class Problem(BaseModel):
    """Why a request was refused; nothing has changed."""

    detail: str
