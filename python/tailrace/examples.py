"""Training examples: each impression once, with its labels and features, and a sample of them."""

# Callers without a type checker pass values of other types: they are checked all the same.
# pyright: reportUnnecessaryIsInstance=false, reportPrivateUsage=false

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit

from tailrace._bridge import arguments, calls
from tailrace._definition.sample import Sample
from tailrace._definition.text import call_text, shown
from tailrace.attribution import Attribution
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from typing import NoReturn

    from pyspark.sql import Column

    from tailrace.options import ColumnOrName, Duration, Emit, FeatureStall, Key, Match, OnLate, OnStall

_IMPRESSIONS = "impressions"

_OWN_ON = 'on=[("column of the impressions", "its own column")]'
_WRONG_KIND = {
    True: "`{}` is a batch DataFrame, and stream() joins streams: call batch().",
    False: "`{0}` is a stream, and batch() joins batch DataFrames: call stream(), or batch({0}=...).",
}


@dataclass(frozen=True)
class Label:
    """A label of `Examples`: its stream, its keys and the other arguments of `Examples.label`."""

    name: str
    frame: DataFrame
    on: ColumnOrName | Sequence[Key]
    since: str | datetime | None
    options: dict[str, object]


@dataclass(frozen=True)
class Features:
    """Features of `Examples`: their stream, its keys and what `Examples.features` takes besides."""

    name: str
    frame: DataFrame
    on: ColumnOrName | Sequence[Key]
    options: dict[str, object]
    initial: DataFrame | None


@dataclass(frozen=True)
class Described:
    """The columns of a definition's examples by their roles, for what reads examples.

    Attributes:
        keys: the key columns of all labels and the time, by the impressions' names: they identify an example
            for the sample, and an amendment has them.
        common: the key columns that all labels have in common: a late event has them.
        time: the column of the event time.
        labels: the names of the labels, and whether another event takes the place of one that is missing.
        weight: the column of the sample's weight; None without a sample.
        has_ratio: whether the sample has a ratio of negatives, by which a batch job chooses others.
        emit: which versions are emitted.
        answer: the definition, with a name of its own for its counts: a query has each name once.
        whole: the definition without its sample; likewise.
    """

    keys: tuple[str, ...]
    common: tuple[str, ...]
    time: str
    labels: Mapping[str, bool]
    weight: str | None
    has_ratio: bool
    emit: str
    answer: Examples
    whole: Examples


def described(definition: Examples) -> Described:
    """The columns of a definition by their roles."""
    return definition._described()  # noqa: SLF001  of this file


def examples(
    impressions: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    time: ColumnOrName,
    on_late: OnLate = "drop",
    release_every: Duration | None = None,
    idle_timeout: Duration | None = None,
    amend_for: Duration | None = None,
    orphans: bool = False,
    on_stall: OnStall = "pause",
    stall_after: Duration | None = None,
    name: str = "examples",
) -> Examples:
    """Begins the definition of training examples. Add labels to it, then call `stream` or `batch`.

        examples = (
            tailrace.examples(impressions, on=["user_id", "item_id"], time="served_at")
            .label("click", clicks, time="clicked_at", after="10 minutes", match="first")
            .label("buy", orders, time="ordered_at", on="user_id", after="1 day")
            .features("profile", profiles, time="computed_at", on="user_id", max_age="7 days")
            .sample({"size(click) = 0 AND size(buy) = 0": 0.1}, seed=7)
            .stream()
        )

    An impression is in the state once, however many labels there are, and is emitted once: when the
    watermark has reached the end of its longest window.

    Args:
        impressions: the DataFrame that has a row for each example. A stream needs a watermark on `time`.
        on: the key columns of labels that name no others, as `on` of `tailrace.join`.
        time: the column of the impressions' event time, a timestamp.
        on_late: as in `tailrace.join`: "drop", or "mark" with a column `_mark`.
        release_every: as in `tailrace.join`.
        idle_timeout: as in `tailrace.join`, and as in `tailrace.as_of` for the features. Not with an
            attribution.
        amend_for: as in `tailrace.join`: how long after its longest window has closed an example may be
            amended. An amended row is emitted if the column of a label has changed. It has the key columns of
            all labels, the time, and the columns that predicates of the sample name; the other columns of
            the impressions and the features are null. It is sampled by its new labels. Not with an
            attribution.
        orphans: as in `tailrace.join`: emits each event that no label of any example matches, as a row of its
            own with the reason in a column `_mark`. It has itself in the columns of the labels that it is an
            event of, and null in the columns of the impressions but the keys of its label. The counts in
            `observedMetrics` have them by label and reason. No sample leaves them out.
        on_stall: what happens when the stream of a label or of features stalls that has no `on_stall` of its
            own, as in `Examples.label`. "exclude" is for labels: features are waited for.
        stall_after: likewise.
        name: of the counts in `observedMetrics` of the query's progress. Two definitions in a query need two
            names.

    Returns:
        An immutable definition: each method returns a new one.

    Raises:
        TypeError: an argument has a wrong Python type.

    Source:
        `io.tailrace.examples` in the jar.
    """
    arguments.frame(impressions, _IMPRESSIONS)
    columns = arguments.Columns("tailrace.examples", impressions)
    options = (
        columns.named(time=time)
        | arguments.texts(on_late=on_late, on_stall=on_stall, name=name)
        | arguments.flags(orphans=orphans)
        | arguments.durations(
            **arguments.given(release_every=release_every, idle_timeout=idle_timeout, amend_for=amend_for)
        )
        | arguments.durations(**arguments.given(stall_after=stall_after))
    )
    return Examples(impressions, on, options)


@dataclass(frozen=True, repr=False)
class Examples:
    """A definition of training examples, made by `tailrace.examples`. Its `repr` has a call on each line."""

    _impressions: DataFrame
    _on: ColumnOrName | Sequence[Key]
    _options: dict[str, object]
    _labels: tuple[Label, ...] = field(default=())
    _features: tuple[Features, ...] = field(default=())
    _sample: Sample | None = None
    _horizons: tuple[Duration, ...] = field(default=())

    def __repr__(self) -> str:
        return self._text()

    # Type checkers would take any name for an attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            cure = ": it is a definition, and `stream()` or `batch()` makes the DataFrame of it"
            known = cure if hasattr(DataFrame, name) else ""
            raise AttributeError(f"'Examples' object has no attribute '{name}'{known}", name=name, obj=self)

    def label(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: ColumnOrName,
        where: str | None = None,
        on: ColumnOrName | Sequence[Key] | None = None,
        after: Duration,
        before: Duration = "0 seconds",
        match: Match = "all",
        max_matches: int | None = None,
        attribution: Attribution | None = None,
        since: str | datetime | None = None,
        on_stall: OnStall | None = None,
        stall_after: Duration | None = None,
    ) -> Examples:
        """Adds a label: the rows of `frame` that an impression has in its window.

        The column `name` is array<struct<all columns of frame but its keys>>, as `into` of `tailrace.join`;
        empty where nothing matches.

        A query may resume with an added label of a DataFrame that it reads already (see `where`). Spark
        refuses an added source, unless sources are named (`spark.readStream.name`). Impressions that were
        buffered at that time, or arrived before, have had events that the query hasn't read: set `since` to
        the time from which the label is complete. A query may also resume with a removed label, if no source
        is removed with it: events that arrive meanwhile are lost, and the label must have the same keys if it
        is added again. A label with an attribution can't be added again, and its window and `since` can't
        change, because emitted examples have their shares by them. Buffered examples are emitted when the
        windows of the remaining labels have closed.

        Args:
            name: of the column.
            frame: the events. A stream needs a watermark on `time`.
            time: the column of their event time, of the type of the impressions' one.
            where: which rows of `frame` are its events, in SQL: "kind = 'click'". Labels of one DataFrame
                read it once, which several filtered DataFrames don't. Its value must be the same each time,
                so `rand()` and `now()` are refused. None: all rows.
            on: the key columns, if they aren't those of `examples`. All labels must have one of the
                impressions' columns in common.
            after: how far after its impression an event may be, as in `tailrace.join`.
            before: how far before it.
            match: "all", "first", "last" or "nearest", as in `tailrace.join`.
            max_matches: how many events to keep, the earliest first; adds a boolean column
                `<name>_truncated`.
            attribution: with None, an event is with each impression in whose window it is. `last_touch()`
                and `first_touch()` credit it to one of them. `linear()`, `time_decay(...)` and
                `position(...)` share it: then each event has a field `credit`, DECIMAL(10, 9), and its
                credits sum to exactly 1. An example stays buffered for before + after, because later
                impressions may have a share. Impressions of one time are in the order of a hash of their
                content; those that are equal in all columns are separate impressions, each with its own
                share.
            since: impressions before this time have null in the column, and no share of its events: a
                timestamp as Spark reads it, in the session's time zone, or a `datetime`; one without a zone
                is in the session's, too.
            on_stall: what happens when the label's stream has no rows while others have, and lags behind
                them. "pause": all examples stay buffered; log and progress name it. "fail": the query ends.
                "exclude": the watermark advances without it until it has caught up. Examples that are emitted
                without events that may still arrive have "excluded" in a column `_mark`, and its events are
                late: with `amend_for` of `examples` they amend these examples. Not with `horizons` and
                beside an attribution. None: as `examples` says. Labels of one DataFrame are excluded if all
                of them are, and fail if one is.
            stall_after: after how long; needed for "fail" and "exclude". Counted as in `sync_join`, within
                one run. If labels share a DataFrame, the shortest counts. None: as `examples` says, or a
                minute.

        Raises:
            TypeError: an argument has a wrong Python type.
        """
        call = f"tailrace.examples, label '{self._new(name)}'"
        arguments.frame(frame, name)
        named: dict[str, object] = {"name": name}
        options = (
            named
            | arguments.Columns(call, frame).named(time=time)
            | arguments.durations(after=after, before=before)
            | arguments.texts(match=match, **arguments.given(where=where, on_stall=on_stall))
            | arguments.durations(**arguments.given(stall_after=stall_after))
            | arguments.counts(**arguments.given(max_matches=max_matches))
        )
        if attribution is not None:
            _check(attribution)
            options["attribution"] = attribution
        _start(since)
        one = Label(name, frame, self._on if on is None else on, since, options)
        return replace(self, _labels=(*self._labels, one))

    def features(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: ColumnOrName,
        on: ColumnOrName | Sequence[Key] | None = None,
        max_age: Duration | None = None,
        delay: Duration = "0 seconds",
        initial: DataFrame | None = None,
        on_stall: FeatureStall | None = None,
        stall_after: Duration | None = None,
    ) -> Examples:
        """Adds features: the newest row of `frame` at the impression's time, as `tailrace.as_of` does.

        They are looked up when the example is emitted, and not for those that the sample leaves out, unless
        its predicates name them.

        Args:
            name: of the column, a struct of all columns of `frame` but its keys; null where there is no row.
            frame: the values, a row for each update. A stream needs a watermark on `time`.
            time: the column of their event time.
            on: the key columns, if they aren't those of `examples`.
            max_age: how much older than the impression's time less `delay` they may be; None: any age.
            delay: how long before the impression they have to be at least.
            initial: a batch DataFrame with the columns of `frame`: values from before the first row of the
                stream, which the first micro-batch of a new checkpoint reads, as in `tailrace.as_of`. `batch`
                has them beside those of `frame`.
            on_stall: what happens when their stream has no rows while others have, and lags behind them:
                "pause" or "fail", as in `label`. None: as `examples` says.
            stall_after: after how long; needed for "fail". None: as `examples` says; without both, nobody
                watches the stream.

        Raises:
            TypeError: an argument has a wrong Python type.
        """
        call = f"tailrace.examples, features '{self._new(name)}'"
        arguments.frame(frame, name)
        named: dict[str, object] = {"name": name}
        options = (
            named
            | arguments.Columns(call, frame).named(time=time)
            | arguments.durations(delay=delay, **arguments.given(max_age=max_age, stall_after=stall_after))
            | arguments.texts(**arguments.given(on_stall=on_stall))
        )
        if initial is not None:
            arguments.frame(initial, "initial")
        one = Features(name, frame, self._on if on is None else on, options, initial)
        return replace(self, _features=(*self._features, one))

    def horizons(self, *horizons: Duration, emit: Emit = "all") -> Examples:
        """Emits several versions of each example, from one state.

        A version is emitted when the watermark reaches the impression's time plus a horizon, with the events
        that have happened up to there and have arrived. The final one is emitted when the longest of the
        labels' windows has closed: it is the example without horizons. The sample is applied to each version.

        Args:
            horizons: ascending durations, up to the longest `after` of a label.
            emit: which versions are emitted. "all". "changes": the first and the final one, and those between
                in which a label's column differs from the previous version's. "late_positives": the first
                one, and each in which a label that was empty has events. "defer": the first and the final
                one.

        Returns:
            A definition whose examples have three additional columns after those of labels: `horizon`, string
            ("1 hour", for "60 minutes" too); `final`, boolean; `changed`, boolean: whether a label's column
            differs from the previous version's, null in the first one. A label with `attribution` has no
            `before` then. The progress counts final versions; with "late_positives", all.

        Raises:
            TypeError: an argument has a wrong Python type, or the examples have horizons already.
        """
        if self._horizons:
            raise TypeError("The examples have horizons already: give all of them in one call.")
        if not horizons:
            raise TypeError("`horizons` takes durations such as '10 minutes': give one at least.")
        ends = arguments.several_durations(horizons, "horizons")
        options = self._options | arguments.texts(emit=emit)
        return replace(self, _horizons=tuple(ends), _options=options)

    def sample(
        self,
        rates: Mapping[str, float] | None = None,
        *,
        seed: int,
        weight: str = "weight",
        ratio: Mapping[str, float] | None = None,
        over: Duration | None = None,
        start: float | None = None,
    ) -> Examples:
        """Keeps a share of the examples: by `rates`, or by a `ratio` of negatives to positives.

        The choice depends on an example's keys, its time, the seed and its rate alone. With `rates`,
        restarts, retries and batch jobs choose the same ones. With `ratio`, restarts and retries do: the rate
        of a partition follows from the examples that it emitted in earlier micro-batches, which its state
        counts. A batch job has the exact rate of each `over` of event time, and chooses others. The progress
        counts the rows that are left out.

        Args:
            rates: for each predicate, in SQL over the finished row, the share of its rows that are emitted, 0
                to 1. The first one that holds counts. Rows for which none holds are emitted. It isn't empty.
            seed: a whole number of 64 bits. It is pinned by the checkpoint.
            weight: the name of a new column: double, 1 / rate of the row.
            ratio: in the place of `rates`, labels by their names, each with the number of negatives to keep
                per example that has an event of it. Negatives are the examples without an event of any of
                these labels; all others are emitted, with weight 1. With several labels, the greatest of
                their rates counts. Not with horizons or `amend_for`.
            over: of `ratio`, the length of event time whose examples decide the rate; None: 1 hour.
            start: of `ratio`, the rate of a partition that hasn't emitted an example yet, above 0; None: 1.

        Raises:
            TailraceJoinError: a rate isn't from 0 to 1, a ratio isn't above 0, or there is none of both.
                Predicates and the names of labels are read when the examples are planned.
            TypeError: an argument has a wrong Python type.
        """
        sample = Sample.of(rates, ratio, seed=seed, weight=weight, over=over, start=start)
        if self._sample is not None:
            raise TypeError("The examples have a sample already: give all predicates in one.")
        return replace(self, _sample=sample)

    def stream(self) -> DataFrame:
        """The examples of streams.

        Returns:
            The columns of the impressions; for each label, in their order, its column, and
            `<name>_truncated` if it has `max_matches`; with horizons, `horizon`, `final` and `changed`;
            `_mark` if on_late="mark", with `amend_for` or with `orphans`; `weight` if there is a sample; the
            features. (Features that a predicate of the sample names come before `weight`.) The output mode
            is append.

        Raises:
            TailraceJoinError: the definition has no label, or a label can't be joined; see `tailrace.join`. A
                DataFrame isn't a stream.
            TailraceSessionError: the session lacks the jar or the extension.
        """
        return self._planned(streaming=True)

    def batch(self, **frames: DataFrame) -> DataFrame:
        """The same examples of batch DataFrames, for instance of last month's log.

        Args:
            frames: in place of the DataFrames of the definition: `impressions`, and labels and features by
                their names. Those that are left out are used as they are.

        Returns:
            The rows that streams with the same data would give; see `stream`.

        Raises:
            TailraceJoinError: see `stream`. A DataFrame is a stream.
            TypeError: a name is none of the definition's.
        """
        return Examples._planned(self._with_frames(frames), streaming=False)

    def _described(self) -> Described:
        of_labels = self._label_keys()
        time = str(self._options["time"])
        keys = dict.fromkeys(key for keys in of_labels for key in keys)
        return Described(
            keys=(*keys, time),
            common=tuple(key for key in keys if all(key in of_label for of_label in of_labels)),
            time=time,
            labels={
                one.name: one.options["match"] != "all" or "max_matches" in one.options
                for one in self._labels
            },
            weight=None if self._sample is None else str(self._sample.options["weight"]),
            has_ratio=self._sample is not None and bool(self._sample.ratio),
            emit=str(self._options.get("emit", "all")),
            answer=self._renamed("answer"),
            whole=replace(self._renamed("whole"), _sample=None),
        )

    def _renamed(self, suffix: str) -> Examples:
        # An orphan belongs to no window of examples.
        own = {"name": f"{self._options['name']}_{suffix}", "orphans": False}
        return replace(self, _options={**self._options, **own})

    def _label_keys(self) -> list[list[str]]:
        """The key columns of each label, by the impressions' names."""
        columns = arguments.Columns("tailrace.examples", self._impressions)
        return [
            [
                key
                for key, _ in arguments.keys(
                    one.on, columns, arguments.Columns("tailrace.examples", one.frame)
                )
            ]
            for one in self._labels
        ]

    def _new(self, name: str) -> str:
        """The name of a label or of features. `batch` knows DataFrames by it."""
        if arguments.text(name, "name") in (
            _IMPRESSIONS,
            *(one.name for one in self._labels + self._features),
        ):
            raise TypeError(f"The examples have `{name}` already: give it another name.")
        return name

    def _text(self) -> str:
        """The definition without its DataFrames, and without arguments that have their defaults."""
        emit = {"emit": self._options.get("emit", "all")}
        own = {name: value for name, value in self._options.items() if name not in emit}
        lines = [call_text("examples", on=self._on, **shown(own))]
        lines += [self._part("label", one) for one in self._labels]
        lines += [self._part("features", one) for one in self._features]
        if self._horizons:
            lines.append(call_text("horizons", *self._horizons, **shown(emit)))
        if self._sample is not None:
            lines.append(self._sample.text())
        return "\n    .".join(lines)

    def _part(self, method: str, one: Label | Features) -> str:
        keys = {} if one.on is self._on else {"on": one.on}
        since = {"since": one.since} if isinstance(one, Label) and one.since is not None else {}
        options = {
            name: str(value) if isinstance(value, Attribution) else value
            for name, value in one.options.items()
            if name != "name"
        }
        return call_text(method, one.name, **keys, **shown(options), **since)

    def _planned(self, *, streaming: bool) -> DataFrame:
        """The examples as a DataFrame; TailraceJoinError if a DataFrame of theirs is of the other kind."""
        named: list[Label | Features] = [*self._labels, *self._features]
        for name, frame in [(_IMPRESSIONS, self._impressions), *((one.name, one.frame) for one in named)]:
            if frame.isStreaming != streaming:
                raise TailraceJoinError(
                    _WRONG_KIND[streaming].format(name),
                    condition="TAILRACE_JOIN_MIXED_BATCH_AND_STREAM",
                    parameters={"argument": name},
                )
        with self._told_whose_on(named):
            return self._plan()

    def _plan(self) -> DataFrame:
        columns = arguments.Columns("tailrace.examples", self._impressions)

        def side(one: Label | Features, **more: object) -> dict[str, object]:
            pairs = arguments.keys(one.on, columns, arguments.Columns("tailrace.examples", one.frame))
            return {"frame": one.frame, "on": pairs, **one.options, **more}

        return calls.plan(
            "examples",
            self._impressions,
            impressions=self._impressions,
            labels=[
                side(one, since=_start(one.since), attribution=_fields(one.options.get("attribution")))
                for one in self._labels
            ],
            features=[side(one, initial=one.initial) for one in self._features],
            sample=self._sample and self._sample.fields(),
            horizons=self._horizons,
            **self._options,
        )

    def _with_frames(self, frames: Mapping[str, DataFrame]) -> Examples:
        """The definition with other DataFrames, by their names; TypeError if it has no such name."""
        named: list[Label | Features] = [*self._labels, *self._features]
        unknown = set(frames) - {_IMPRESSIONS, *(one.name for one in named)}
        if unknown:
            known = ", ".join(f"`{name}`" for name in (_IMPRESSIONS, *(one.name for one in named)))
            raise TypeError(f"The examples have no `{min(unknown)}`. They have {known}.")
        for name, frame in frames.items():
            arguments.frame(frame, name)
        made: Examples = replace(
            self,
            _impressions=frames.get(_IMPRESSIONS, self._impressions),
            _labels=tuple(replace(one, frame=frames.get(one.name, one.frame)) for one in self._labels),
            _features=tuple(replace(one, frame=frames.get(one.name, one.frame)) for one in self._features),
        )
        return made

    @contextmanager
    def _told_whose_on(self, sides: Sequence[Label | Features]) -> Generator[None]:
        """Says of an error about `on` of a label or of features if they have it from `tailrace.examples`."""
        try:
            yield
        except TailraceJoinError as e:
            call = e.parameters.get("call", "")
            for one in sides:
                if (
                    one.on is self._on
                    and e.parameters.get("argument") == "on"
                    and call.endswith(f" '{one.name}'")
                ):
                    e.add_note(
                        f"'{one.name}' has the `on` of tailrace.examples. It may have its own: {_OWN_ON}."
                    )
            raise


def _check(attribution: object) -> None:
    if not isinstance(attribution, Attribution):
        raise TypeError(
            f"`attribution` must be tailrace.last_touch() or one of its kind, "
            f"not {type(attribution).__name__}."
        )


def _fields(attribution: object) -> dict[str, object] | None:
    return asdict(attribution) if isinstance(attribution, Attribution) else None


def _start(since: str | datetime | None) -> Column | None:
    """`since` of a label as a literal; TypeError unless it is a string or a datetime."""
    match since:
        case None:
            return None
        case str():
            return lit(arguments.encodable(since, "since"))
        case datetime():
            # Spark reads one without a zone in that of this process.
            return arguments.moment(since, "since") if since.tzinfo else lit(since.isoformat(" "))
        case _:
            raise TypeError(f"`since` must be a string or a datetime, not {type(since).__name__}.")
