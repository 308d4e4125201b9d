"""Training examples: each impression once, with its labels and features, and a sample of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tailrace import _convert, _example_text
from tailrace._example_parts import Features, Label, Sample, shares_of, start
from tailrace._example_plan import IMPRESSIONS, planned, with_frames
from tailrace.attribution import Attribution, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from tailrace.options import ColumnOrName, Duration, Emit, Key, LabelStall, Match, OnLate


def examples(
    impressions: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    time: ColumnOrName,
    on_late: OnLate = "drop",
    release_every: Duration | None = None,
    close_after: Duration | None = None,
    amend_for: Duration | None = None,
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

    An impression is in the state once, however many labels there are, and comes out once: when the
    watermark has passed the end of its longest window.

    Args:
        impressions: the DataFrame that has a row for each example. A stream needs a watermark on `time`.
        on: the key columns of labels that name no others, as `on` of `tailrace.join`.
        time: the column of the impressions' event time, a timestamp.
        on_late: as in `tailrace.join`: "drop", or "mark" with a column `_mark`.
        release_every: as in `tailrace.join`.
        close_after: as in `tailrace.join`, and as in `tailrace.as_of` for the features. Not with an
            attribution.
        amend_for: as in `tailrace.join`: how long after its longest window has closed an example may be
            amended. An amended row comes out if the column of a label has changed. It has the key columns of
            all labels, the time, and the columns that predicates of the sample name; the other columns of
            the impressions and the features are null. It is sampled by its new labels. Not with an
            attribution.
        name: of the counts in `observedMetrics` of the query's progress. Two definitions in a query need two
            names.

    Returns:
        A definition. It never changes: each method gives a new one.

    Raises:
        TypeError: an argument has a wrong Python type.

    Source:
        `io.tailrace.examples` in the jar.
    """
    _convert.frame(impressions, IMPRESSIONS)
    columns = _convert.Columns("tailrace.examples", impressions)
    options = (
        columns.named(time=time)
        | _convert.texts(on_late=on_late, name=name)
        | _convert.durations(
            **_convert.given(release_every=release_every, close_after=close_after, amend_for=amend_for)
        )
    )
    return Examples(impressions, on, options)


@dataclass(frozen=True, repr=False)
class Examples:
    """A definition of training examples, made by `tailrace.examples`. Its `repr` has a call on each line."""

    _impressions: DataFrame
    _on: ColumnOrName | Sequence[Key]
    _options: dict[str, str]
    _labels: tuple[Label, ...] = field(default=())
    _features: tuple[Features, ...] = field(default=())
    _sample: Sample | None = None
    _horizons: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return _example_text.text(self)

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
        on_stall: LabelStall = "pause",
        stall_after: Duration | None = None,
    ) -> Examples:
        """Adds a label: the rows of `frame` that an impression has in its window.

        The column `name` is array<struct<all columns of frame but its keys>>, as `into` of `tailrace.join`;
        empty where nothing matches.

        A query may start again with a label more of a DataFrame that it reads already (see `where`). Spark
        refuses a source more, unless sources are named (`spark.readStream.name`). Impressions that waited
        then, or came before, have had events that the query hasn't read: say with `since` from when on the
        label is complete. It may start with one less, too, if no source goes with it: its events that come
        meanwhile are lost, and the label has the same keys if it comes back. A label with an attribution
        can't come back, and its window and `since` stay what they are: by them, examples that were emitted
        have their shares. Examples that wait are emitted when the windows of the labels that are left have
        closed.

        Args:
            name: of the column.
            frame: the events. A stream needs a watermark on `time`.
            time: the column of their event time, of the type of the impressions' one.
            where: which rows of `frame` are its events, in SQL: "kind = 'click'". Labels of one DataFrame
                read it once, which several filtered DataFrames don't. None: all rows.
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
                credits sum to exactly 1. An example waits before + after, because later impressions may
                have a share. Impressions of one time are in the order of a hash of their content; those
                that are equal in all columns are impressions of their own, each with its own share.
            since: impressions before this time have null in the column, and no share of its events: a
                timestamp as Spark reads it, in the session's time zone, or a `datetime`; one without a zone
                is in the session's, too.
            on_stall: what is done when the label's stream gives nothing while others give rows, and is behind
                them. "pause": all examples wait; log and progress name it. "fail": the query ends.
            stall_after: after how long; needed for "fail". Counted as in `sync_join`, within one run. None: a
                minute. Of labels of one DataFrame the shortest counts, of those that fail if one does.

        Raises:
            TypeError: an argument has a wrong Python type.
        """
        call = f"tailrace.examples, label '{self._new(name)}'"
        _convert.frame(frame, name)
        options = (
            {"name": name}
            | _convert.Columns(call, frame).named(time=time)
            | _convert.durations(after=after, before=before)
            | _convert.texts(match=match, on_stall=on_stall, **_convert.given(where=where))
            | _convert.durations(**_convert.given(stall_after=stall_after))
            | _convert.counts(**_convert.given(max_matches=max_matches))
        )
        if attribution is not None:
            options["attribution"] = text_of(attribution)
        start(since)
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
    ) -> Examples:
        """Adds features: the newest row of `frame` at the impression's time, as `tailrace.as_of` does.

        They are looked up when the example comes out, and not for those that the sample leaves out, unless
        its predicates name them.

        Args:
            name: of the column, a struct of all columns of `frame` but its keys; null where there is no row.
            frame: the values, a row for each update. A stream needs a watermark on `time`.
            time: the column of their event time.
            on: the key columns, if they aren't those of `examples`.
            max_age: how much older than the impression's time less `delay` they may be; None: however old.
            delay: how long before the impression they have to be at the least.

        Raises:
            TypeError: an argument has a wrong Python type.
        """
        call = f"tailrace.examples, features '{self._new(name)}'"
        _convert.frame(frame, name)
        options = (
            {"name": name}
            | _convert.Columns(call, frame).named(time=time)
            | _convert.durations(delay=delay, **_convert.given(max_age=max_age))
        )
        one = Features(name, frame, self._on if on is None else on, options)
        return replace(self, _features=(*self._features, one))

    def horizons(self, *horizons: Duration, emit: Emit = "all") -> Examples:
        """Gives several versions of each example, from the one state that holds it.

        A version comes out when the watermark reaches the impression's time plus a horizon, with the events
        that have happened up to there and have come. The final one comes out when the longest of the labels'
        windows has closed: it is the example without horizons. The sample is asked for each version.

        Args:
            horizons: durations that ascend, up to the longest `after` of a label.
            emit: which versions come out. "all". "changes": the first and the final one, and those between in
                which a label's column differs from the version before. "late_positives": the first one, and
                each in which a label that was empty has events. "defer": the first and the final one.

        Returns:
            A definition whose examples have three more columns behind those of labels: `horizon`, string
            ("1 hour", for "60 minutes" too); `final`, boolean; `changed`, boolean: whether a label's column
            differs from the version before, null in the first one. A label with `attribution` has no
            `before` then. The progress counts final versions; with "late_positives", all.

        Raises:
            TypeError: an argument has a wrong Python type, or the examples have horizons already.
        """
        if self._horizons:
            raise TypeError("The examples have horizons already: give all of them in one call.")
        if not horizons:
            raise TypeError("`horizons` takes durations such as '10 minutes': give one at least.")
        ends = _convert.several_durations(horizons, "horizons")
        options = self._options | _convert.texts(emit=emit)
        return replace(self, _horizons=tuple(ends), _options=options)

    def sample(self, rates: Mapping[str, float], *, seed: int, weight: str = "weight") -> Examples:
        """Keeps a share of the examples.

        Whether one comes out depends on its keys, its time and the seed alone. So restarts, retries and batch
        jobs choose the same ones. The progress counts those that each predicate has left out.

        Args:
            rates: for each predicate, in SQL over the finished row, the share of its rows that come out, 0
                to 1. The first one that holds counts. Rows for which none holds come out. It isn't empty.
            seed: a whole number of 64 bits. A checkpoint is bound to it.
            weight: the name of a new column: double, 1 / rate of the row.

        Raises:
            TailraceJoinError: a rate isn't from 0 to 1, or there is none. Predicates are read when the
                examples are planned.
            TypeError: an argument has a wrong Python type.
        """
        shares = shares_of(rates)
        if self._sample is not None:
            raise TypeError("The examples have a sample already: give all predicates in one.")
        options = _convert.counts(seed=seed) | _convert.texts(weight=weight)
        return replace(self, _sample=Sample(shares, options))

    def stream(self) -> DataFrame:
        """The examples of streams.

        Returns:
            The columns of the impressions; for each label, in their order, its column, and
            `<name>_truncated` if it has `max_matches`; with horizons, `horizon`, `final` and `changed`;
            `_mark` if on_late="mark" or with `amend_for`; `weight` if there is a sample; the features.
            (Features that a predicate of the sample names come before `weight`.) The output mode is append.

        Raises:
            TailraceJoinError: the definition has no label, or a label can't be joined; see `tailrace.join`. A
                DataFrame isn't a stream.
            TailraceSessionError: the session lacks the jar or the extension.
        """
        return planned(self, streaming=True)

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
        return planned(with_frames(self, frames), streaming=False)

    def _new(self, name: str) -> str:
        """The name of a label or of features. `batch` knows DataFrames by it."""
        if _convert.text(name, "name") in (
            IMPRESSIONS,
            *(one.name for one in self._labels + self._features),
        ):
            raise TypeError(f"The examples have `{name}` already.")
        return name
