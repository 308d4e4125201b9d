"""The JSON of answers, version 1. All times are microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from tailrace.server.protocol import MAX_IDLE_NAMED, Kind, WindowReport

MAX_READS_NAMED = 20
MAX_HOLDERS_NAMED = 5

Standing = Literal["holds", "behind", "passed", "excluded", "idle", "not in roster"]


class LowWatermark(BaseModel):
    """Null: nothing is known yet, or the source has no input."""

    input_low_watermark: int | None
    output_low_watermark: int | None


class ToldOperator(LowWatermark):
    """An operator of a report."""

    batches: int | None = Field(
        None,
        description="How many micro-batches the server had been told of before the report. Fewer than it has "
        "acknowledged in the run: its database was restored from an older copy; send all hosts again.",
    )


class ReportAnswer(BaseModel):
    """The answer to a report, which is in the database when this is sent."""

    operators: dict[str, ToldOperator] = Field(description="Those of the report.")
    global_low_watermark: int | None
    excluded_hosts: dict[str, list[str]]
    idle_hosts: dict[str, list[str]] = Field(
        description=f"Silent hosts, for which nothing waits; at most {MAX_IDLE_NAMED} for each source."
    )
    held_by: dict[str, list[str]] = Field(
        {},
        description="The other queries that hold back the low watermark of a source of this report, by their "
        f"names or the ids in their checkpoints, at most {MAX_HOLDERS_NAMED} for each; none if this one "
        "does.",
    )
    need_roster: bool = Field(
        description="The server lacks the roster of a source of this report: send it, with all progress."
    )
    warnings: list[str] = Field(
        [], description="For people: what the server has ignored, and what it waits for."
    )


class AppSummary(BaseModel):
    """An application."""

    app: str
    operators: int
    global_low_watermark: int | None
    reported_at: int


class ReporterState(BaseModel):
    """A query that reports an operator, or did."""

    client: str
    query: str | None = Field(description="What its user calls it.")
    run: str
    label: str | None = Field(description="What the operator does in this query, in words.")
    reads: list[str] | None = Field(
        description=f"What it reads or writes, at most {MAX_READS_NAMED} names; null: unknown."
    )
    reads_count: int | None = Field(description="How many names there are.")
    logs: str | None = Field(description="The name of the logs that it reads parts of.")
    batches: int | None = Field(description="How many micro-batches it has told of.")
    gone_back_from: int | None = Field(
        description="How many it had told of before its checkpoint was restored from an older copy."
    )
    holds: bool = Field(description="Whether the operator's output low watermark waits for this query.")
    live: bool = Field(description="Heard of within a minute. The data of a silent query still counts.")
    leaving: bool = Field(description="It has said that it ends.")
    heard_at: int
    reported_at: int
    output_low_watermark: int | None = Field(description="What it was told.")
    hosts: int | None = Field(description="For a source: how many it has reported or rostered.")
    warnings: list[str]


class OperatorState(LowWatermark):
    """An operator as it stands. The lag is the server's time less the output low watermark."""

    operator: str
    kind: Kind
    label: str | None = Field(
        description="What it does, in words, of all queries that report it; null: none has said."
    )
    client: str = Field(description="The query that has reported last.")
    reporters: list[ReporterState]
    advanced_to: int | None = Field(description="What a person has advanced it to.")
    upstreams: list[str]
    reported_at: int
    lag: int | None
    completeness: str | None
    hosts: int | None = Field(description="For a source: how many count.")
    hosts_behind: int | None = Field(
        description="For a source: how many that count haven't passed its watermark."
    )
    hosts_allowed: int | None = Field(description="For a source: how many may not have passed.")
    hosts_excluded: int | None
    hosts_idle: int | None = Field(description="For a source: how many are silent for longer than it waits.")
    backlog: int | None = Field(
        description="For a source: the lag of the slowest host that counts; null if it was never seen."
    )
    skew: int | None = Field(
        description="For a source: how far the fastest host that counts is ahead of the slowest one."
    )
    has_roster: bool | None
    key_groups: int | None


class AppState(AppSummary):
    """An application as it stands, with all its operators."""

    at: int = Field(description="The server's time.")
    lag: int | None
    held_by: list[str] = Field(
        description="Operators that the global low watermark waits for, and for nothing upstream of them."
    )
    held_by_clients: list[str] = Field(
        description="Queries that were not heard of for a minute, and whose data still holds one of those."
    )
    topology: list[OperatorState]


class HostState(BaseModel):
    """A host as it stands. The lag is the server's time less its progress; null if it was never seen."""

    operator: str
    host: str
    progress: int | None
    lag: int | None
    queries: list[str] = Field(
        description="The queries that have read least of it: their names, or ids where they have none."
    )
    state: Standing = Field(
        description="holds: the global low watermark waits for its source, which waits for it while others "
        "are ahead. behind: it hasn't passed its source's low watermark, and isn't waited for. passed: it "
        "has. idle: it is silent, and not waited for."
    )


class HostPage(BaseModel):
    """Hosts, the slowest first."""

    total: int = Field(description="How many there are of those asked for.")
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
    next: int | None = None


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
    code: str | None = Field(
        None,
        description="Of a 409 that a query can't repeat with another outcome: "
        "TAILRACE_WATERMARK_REPORTER_CONFLICT, TAILRACE_WATERMARK_RUN_REPLACED.",
    )
