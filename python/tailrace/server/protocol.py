"""The JSON of requests, versions 1 and 2, with its limits; `answers` has the JSON of answers.

All times are microseconds since 1970-01-01 UTC, from -(2**53 - 1) to 2**53 - 1, which a JSON number holds
exactly. The least one stands for no low watermark; in version 1, which has no times before 1970, 0 does.
"""

# Validators take whatever was sent.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tailrace.server.names import MAX_NAME, NAME_PATTERN, all_fit, encoded_host, is_text
from tailrace.server.rules import COMPLETENESS, parse_completeness
from tailrace.server.times import EARLIEST

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TIME = 2**53 - 1
MAX_HOSTS = 100_000
MAX_OPERATORS = 1_000
MAX_KEY_GROUPS = 10_000
MAX_WINDOWS = 1_000
MAX_MISSING = 1_000
MAX_IDLE_NAMED = 100
MAX_READS = 10_000
MAX_LABEL = 100
# Up to this many values pydantic checks itself; above it, one pass finds the first fault.
_FEW = 1_000

Time = Annotated[int, Field(ge=EARLIEST, le=MAX_TIME)]
Count = Annotated[int, Field(ge=0, le=MAX_TIME)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=NAME_PATTERN)]
Kind = Literal["source", "operator", "sink"]


class _Request(BaseModel):
    # Strict: "5", 5.0 and true are no times. An unknown field is a client's mistake, and is refused.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True)

    # A body can cause millions of errors, and each takes a microsecond and a kilobyte. So lists stop at the
    # first error, and one error is reported for all unknown fields and one for all hosts.
    @model_validator(mode="before")
    @classmethod
    def _is_known(cls, given: Any) -> Any:  # noqa: ANN401  whatever was sent
        known = cls.model_fields
        if isinstance(given, dict):
            sent: Mapping[Any, Any] = given
            if not sent.keys() <= known.keys():
                field = str(next(field for field in sent if field not in known))
                raise ValueError(f"{field[:100]!r} is no field")
        return given


class MissingHost(_Request):
    """A host that hadn't passed a window's end when it closed."""

    host: str
    progress: Time | None = None

    @field_validator("host")
    @classmethod
    def _fit(cls, host: str) -> str:
        return encoded_host(host)


class WindowReport(_Request):
    """The completeness of a closed window; reported again when more rows have come late."""

    operator: Name
    start: Time
    end: Time
    expected: Count
    passed: Count
    missing: Annotated[list[MissingHost], Field(max_length=MAX_MISSING, fail_fast=True)] = []
    late_rows: Count = 0

    @model_validator(mode="after")
    def _makes_sense(self) -> WindowReport:
        if self.start >= self.end:
            raise ValueError("start isn't before end")
        if self.passed > self.expected:
            raise ValueError("more hosts have passed than were expected")
        return self


class OperatorReport(_Request):
    """The progress of one operator. Its kind decides which fields it has."""

    operator: Name
    kind: Kind
    label: Annotated[str, Field(min_length=1, max_length=MAX_LABEL, pattern=NAME_PATTERN)] | None = Field(
        None,
        description="What it does, in words for people: `count by window`. Left out: as the client has said "
        "before.",
    )
    upstreams: Annotated[list[Name], Field(max_length=MAX_OPERATORS, fail_fast=True)] = []
    completeness: Annotated[str, Field(pattern=COMPLETENESS)] | None = Field(
        None, description="For a source: the share of hosts that must have passed, a decimal. Default: 1."
    )
    reads: Annotated[list[Name], Field(max_length=MAX_READS, fail_fast=True)] | None = Field(
        None,
        description="What it reads or writes: kafka:SERVERS/TOPIC/PARTITION, kafka:SERVERS/TOPIC, file:PATH, "
        "folder:PATH, or the source's description. Two live queries that report one operator and read the "
        "same are refused; the place of one that lives no more goes to who reads all that it read. Left "
        "out: as the run has said before, or unknown, which is never the same.",
    )
    logs: Name | None = Field(
        None,
        description="For a source: a name for its hosts' logs, of which other queries with the same name "
        "here read other parts. A host of its roster counts as read if any of them has read it. Left out: "
        "the logs are its own, and it waits for each host of its roster until it has read the host itself.",
    )
    roster: Annotated[list[str], Field(max_length=MAX_HOSTS, fail_fast=True)] | None = Field(
        None, description="For a source: all its hosts, when new or changed; [] means the hosts seen so far."
    )
    roster_version: Name | Count | None = Field(
        None,
        description="For a source, optional: another value for each roster, also sent without the roster. "
        "While the server doesn't have the roster of this version, it holds the source's watermark and "
        "answers need_roster.",
    )
    idle_after: Annotated[int, Field(ge=1_000, le=MAX_TIME)] | None = Field(
        None,
        description="For a source: a host whose progress hasn't risen for so many microseconds, by the "
        "server's clock, doesn't count until it rises again. Null: the server waits for all hosts.",
    )
    unread: bool = Field(
        False,
        description="For a source: its input has unread rows, so no host is taken for silent.",
    )
    progress: Annotated[dict[str, Time], Field(max_length=MAX_HOSTS)] = Field(
        {}, description="For a source: the largest event time read per host; only of hosts that moved."
    )
    input_low_watermark: Time | None = Field(
        None, description="For a source whose records carry the watermark stamps of an upstream system."
    )
    low_watermarks: Annotated[dict[Name, Time], Field(max_length=MAX_KEY_GROUPS)] = Field(
        {},
        description="For an operator or a sink: output low watermark per key group (state partition). One "
        "that holds rows reports all its key groups from its first report on; one without key groups passes "
        "its input on.",
    )
    key_groups: Annotated[int, Field(ge=0, le=MAX_KEY_GROUPS)] | None = Field(
        None,
        description="For an operator or a sink: the number of key groups now. A new number drops the known "
        "key groups, and the output is held until all key groups have been reported.",
    )

    @field_validator("progress", "low_watermarks", mode="before")
    @classmethod
    def _are_times(cls, given: Any, info: ValidationInfo) -> Any:  # noqa: ANN401  whatever was sent
        if not isinstance(given, dict):
            return given
        sent: Mapping[Any, Any] = given
        if len(sent) <= _FEW:
            return sent
        most = MAX_HOSTS if info.field_name == "progress" else MAX_KEY_GROUPS
        if len(sent) > most:
            raise ValueError(f"it names more than {most:,}")
        times = sent.values()
        if set(map(type, times)) != {int} or min(times) < EARLIEST or max(times) > MAX_TIME:
            name = next(n for n, t in sent.items() if type(t) is not int or not EARLIEST <= t <= MAX_TIME)
            raise ValueError(
                f"of {str(name)[:MAX_NAME]!r} it isn't a time: a whole number from {EARLIEST} to {MAX_TIME}"
            )
        if set(map(type, sent)) != {str} or not is_text(sent):
            raise ValueError("it has a name that is no text")
        if info.field_name == "low_watermarks" and not all_fit(sent):
            raise ValueError(f"it has a name that is empty, longer than {MAX_NAME} or has control characters")
        return sent

    @field_validator("roster")
    @classmethod
    def _fit(cls, roster: list[str] | None) -> list[str] | None:
        return roster if roster is None or all_fit(roster) else [encoded_host(name) for name in roster]

    @field_validator("progress")
    @classmethod
    def _fit_too(cls, progress: dict[str, int]) -> dict[str, int]:
        if all_fit(progress):
            return progress
        # Two names with the same encoding are one host, with the progress of the slower one.
        found: dict[str, int] = {}
        for name, time in progress.items():
            host = encoded_host(name)
            found[host] = min(found.get(host, time), time)
        return found

    @model_validator(mode="after")
    def _makes_sense(self) -> OperatorReport:
        if self.kind == "source":
            if self.low_watermarks or self.key_groups is not None:
                raise ValueError("a source has no key groups")
            parse_completeness(self.completeness or "1")
            if self.roster is not None and len(set(self.roster)) < len(self.roster):
                raise ValueError("the roster names a host twice")
        else:
            of_sources = (
                *(self.completeness, self.logs, self.roster, self.roster_version),
                *(self.idle_after, self.input_low_watermark),
            )
            if self.progress or self.unread or any(value is not None for value in of_sources):
                raise ValueError(
                    "completeness, logs, roster, idle_after, unread, progress and input_low_watermark are a "
                    "source's, not an operator's"
                )
            if not self.upstreams:
                raise ValueError("an operator that is no source names the operators upstream of it")
        return self


class Report(_Request):
    """A client's report of one batch. It may be repeated, reordered, and sent to any server of the store.

    A report without operators is a heartbeat.
    """

    client: Name = Field(description="The query; the same over all its starts.")
    run: Annotated[str, Field(max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")] = Field(
        "", description="This start of the query. A new run takes over, and the former one is refused."
    )
    version: Literal[1, 2] = Field(
        1,
        description="Of the protocol. In version 1 there are no times before 1970, and 0 stands for none; in "
        "version 2 the least time does.",
    )
    query: Name | None = Field(None, description="What the user calls the query, for people.")
    batches: Count | None = Field(
        None,
        description="How many micro-batches the report includes. The first report of a run that includes "
        "fewer than the run before has gone back: its checkpoint was restored from an older copy. The server "
        "forgets what it has of the micro-batches that come again. Until a run has said this of an operator "
        "of which a former run had, its answers have no low watermarks of it.",
    )
    leaving: bool = Field(False, description="The client ends; its data still counts.")
    operators: Annotated[list[OperatorReport], Field(max_length=MAX_OPERATORS, fail_fast=True)] = []
    windows: Annotated[list[WindowReport], Field(max_length=MAX_WINDOWS, fail_fast=True)] = []

    @model_validator(mode="after")
    def _makes_sense(self) -> Report:
        if len({operator.operator for operator in self.operators}) < len(self.operators):
            raise ValueError("an operator is reported twice")
        return self


_ACTIONS = """advance: the operator's output low watermark, to a time, with `confirm`. undo: takes
its advance back, and what followed of it here. exclude: a host of a source stops counting. include:
it counts again. remove: a client of an operator, the operator, or the whole application is retired
or has another name; it is back when it is reported again. purge: the operator or the application is
forgotten with all that was told of it, with `confirm`."""


class OverrideRequest(_Request):
    """A person's decision that overrides the rules. The audit table keeps it with the name and the reason."""

    action: Literal["advance", "undo", "exclude", "include", "remove", "purge"] = Field(description=_ACTIONS)
    operator: Name | None = Field(None, description="With remove and purge optional: without it all.")
    client: Name | None = Field(None, description="With remove, optional: that query alone.")
    to: Time | None = Field(None, description="With advance.")
    host: Name | None = Field(None, description="With exclude and include.")
    confirm: bool = Field(False, description="With advance and purge: the person accepts what is lost.")
    name: Name = Field(description="Who decides.")
    reason: Annotated[str, Field(min_length=1, max_length=2_000, pattern=NAME_PATTERN)]

    @model_validator(mode="after")
    def _makes_sense(self) -> OverrideRequest:
        if self.operator is None and self.action not in {"remove", "purge"}:
            raise ValueError("`operator` is needed")
        of_host = self.action in {"exclude", "include"}
        if (self.to is not None) != (self.action == "advance") or (self.host is not None) != of_host:
            raise ValueError("advance takes `to`; exclude and include take `host`; others take neither")
        if self.client is not None and self.action != "remove":
            raise ValueError("`client` is of remove")
        return self
