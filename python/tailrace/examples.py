"""Training examples: each impression once, with a column for each label, and a sample of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql.functions import lit

from tailrace import _convert, _jvm
from tailrace.errors import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from tailrace.options import ColumnOrName, Duration, Key, Match, OnLate

_IMPRESSIONS = "impressions"


def examples(
    impressions: DataFrame,
    *,
    on: ColumnOrName | Sequence[Key],
    time: ColumnOrName,
    on_late: OnLate = "drop",
    release_every: Duration | None = None,
    name: str = "examples",
) -> Examples:
    """Begins the definition of training examples. Add labels to it, then call `stream` or `batch`.

        examples = (
            tailrace.examples(impressions, on=["user_id", "item_id"], time="served_at")
            .label("click", clicks, time="clicked_at", after="10 minutes", match="first")
            .label("buy", orders, time="ordered_at", on="user_id", after="1 day")
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
        name: of the counts in `observedMetrics` of the query's progress. Two definitions in a query need two
            names.

    Returns:
        A definition. It never changes: each method gives a new one.

    Raises:
        TypeError: an argument has a wrong Python type.

    Source:
        `io.tailrace.examples` in the jar.
    """
    _convert.frame(impressions, _IMPRESSIONS)
    columns = _convert.Columns("tailrace.examples", impressions)
    options = (
        columns.named(time=time)
        | _convert.texts(on_late=on_late, name=name)
        | _convert.durations(**_convert.given(release_every=release_every))
    )
    return Examples(impressions, on, options)


@dataclass(frozen=True)
class Attribution:
    """To which of several impressions an event is credited, made by `last_touch`, `linear` and so on."""

    text: str


def last_touch() -> Attribution:
    """Credits an event to the latest of the impressions in whose window it is. The others don't have it."""
    return Attribution("last_touch")


def first_touch() -> Attribution:
    """Credits an event to the earliest of the impressions in whose window it is. The others don't have it."""
    return Attribution("first_touch")


def linear() -> Attribution:
    """Credits an event to all impressions in whose window it is, in equal shares."""
    return Attribution("linear")


def time_decay(half_life: Duration) -> Attribution:
    """Credits an event to all impressions in whose window it is, the more the nearer they are to it.

    Args:
        half_life: an impression has half the share of one that is nearer by this. Above zero.
    """
    return Attribution(f"time_decay {_convert.duration(half_life, 'half_life')}")


def position(first: float, middle: float, last: float) -> Attribution:
    """Credits an event to all impressions in whose window it is, by their place among them.

    Args:
        first: the share of the earliest one; 0 or more, and the three sum to 1.
        middle: the share of those between the earliest and the latest one, in equal parts. Where there are
            none, the others have their shares in proportion.
        last: the share of the latest one.
    """
    weights = [_number(value, name) for name, value in (("first", first), ("middle", middle), ("last", last))]
    return Attribution("position " + " ".join(map(repr, weights)))


@dataclass(frozen=True)
class Label:
    """A label of `Examples`: its stream, its keys and what `Examples.label` takes besides."""

    name: str
    frame: DataFrame
    on: ColumnOrName | Sequence[Key]
    since: Column | None
    options: dict[str, str]


@dataclass(frozen=True)
class Sample:
    """What `Examples.sample` takes."""

    rates: dict[str, float]
    options: dict[str, str]


@dataclass(frozen=True)
class Examples:
    """A definition of training examples, made by `tailrace.examples`."""

    _impressions: DataFrame
    _on: ColumnOrName | Sequence[Key]
    _options: dict[str, str]
    _labels: tuple[Label, ...] = field(default=())
    _sample: Sample | None = None

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
    ) -> Examples:
        """Adds a label: the rows of `frame` that an impression has in its window.

        The column `name` is array<struct<all columns of frame but its keys>>, as `into` of `tailrace.join`;
        empty where nothing matches.

        A query may start again with a label more of a DataFrame that it reads already (see `where`). Spark
        refuses X a source more, unless sources are named (`spark.readStream.name`). Impressions that waited
        then, or came before, have had events that the query hasn't read: say with `since` from when on the
        label is complete. It may start with one less, too: what waits of it is forgotten, and is not there
        if the label comes back.

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
            attribution: with None, an event is with each impression in whose window it is. `last_touch()` and
                `first_touch()` credit it to one of them. `linear()`, `time_decay(...)` and `position(...)`
                share
                it: then each event has a field `credit`, DECIMAL(10, 9), and its credits sum to exactly 1. An
                example waits before + after, because later impressions may have a share. Impressions of one
                time are in the order of a hash of their content; those that are equal in all columns count
                as one, and each of them has its credit.
            since: impressions before this time have null in the column: a timestamp as Spark reads it, in the
                session's time zone, or a `datetime`.

        Raises:
            TypeError: an argument has a wrong Python type.
        """
        call = f"tailrace.examples, label '{_convert.text(name, 'name')}'"
        _convert.frame(frame, name)
        options = (
            {"name": name}
            | _convert.Columns(call, frame).named(time=time)
            | _convert.durations(after=after, before=before)
            | _convert.texts(match=match, **_convert.given(where=where))
            | _convert.counts(**_convert.given(max_matches=max_matches))
        )
        if attribution is not None:
            _convert.kind(attribution, Attribution, "attribution")
            options["attribution"] = attribution.text
        one = Label(name, frame, self._on if on is None else on, _start(since), options)
        return replace(self, _labels=(*self._labels, one))

    def sample(self, rates: Mapping[str, float], *, seed: int, weight: str = "weight") -> Examples:
        """Keeps a share of the examples.

        Whether one comes out depends on its keys, its time and the seed alone. So restarts, retries and batch
        jobs choose the same ones. The progress counts those that each predicate has left out.

        Args:
            rates: for each predicate, in SQL over the finished row, the share of its rows that come out, 0
                to 1. The first predicate that holds counts. Rows for which none holds come out.
            seed: a whole number of 64 bits. A checkpoint is bound to it.
            weight: the name of a new column: double, 1 / rate of the row.

        Raises:
            TypeError: an argument has a wrong Python type.
        """
        _convert.kind(rates, Mapping, "rates")
        shares = {_convert.text(one, "rates"): _rate(rate) for one, rate in rates.items()}
        options = _convert.counts(seed=seed) | _convert.texts(weight=weight)
        return replace(self, _sample=Sample(shares, options))

    def stream(self) -> DataFrame:
        """The examples of streams.

        Returns:
            The columns of the impressions; for each label, in their order, its column, and
            `<name>_truncated` if it has `max_matches`; `_mark` if on_late="mark"; `weight` if there is a
            sample. The output mode is append.

        Raises:
            TailraceJoinError: the definition has no label, or a label can't be joined; see `tailrace.join`. A
                DataFrame isn't a stream.
            TailraceSessionError: the session lacks the jar or the extension.
        """
        return self._planned(self._impressions, self._labels, streaming=True)

    def batch(self, **frames: DataFrame) -> DataFrame:
        """The same examples of batch DataFrames, for instance of last month's log.

        Args:
            frames: in place of the DataFrames of the definition: `impressions`, and labels by their names.
                Those that are left out are used as they are.

        Returns:
            The rows that streams with the same data would give; see `stream`.

        Raises:
            TailraceJoinError: see `stream`. A DataFrame is a stream.
            TypeError: a name is none of the definition's.
        """
        unknown = set(frames) - {_IMPRESSIONS, *(one.name for one in self._labels)}
        if unknown:
            raise TypeError(f"The examples have no `{min(unknown)}`.")
        for name, frame in frames.items():
            _convert.frame(frame, name)
        labels = tuple(replace(one, frame=frames.get(one.name, one.frame)) for one in self._labels)
        impressions = frames.get(_IMPRESSIONS, self._impressions)
        return self._planned(impressions, labels, streaming=False)

    def _planned(self, impressions: DataFrame, labels: Sequence[Label], *, streaming: bool) -> DataFrame:
        named = [(one.name, one.frame) for one in labels]
        for name, frame in [(_IMPRESSIONS, impressions), *named]:
            if frame.isStreaming != streaming:
                raise TailraceJoinError(_WRONG_KIND[streaming].format(name))
        left = _convert.Columns("tailrace.examples", impressions)
        keys = [
            _convert.keys(one.on, left, _convert.Columns("tailrace.examples", one.frame)) for one in labels
        ]
        sample = self._sample or Sample({}, {})
        return _jvm.plan(
            "examples",
            impressions,
            [one.frame for one in labels],
            [lefts for lefts, _ in keys],
            [rights for _, rights in keys],
            [one.since for one in labels],
            [one.options for one in labels],
            [text for predicate, rate in sample.rates.items() for text in (predicate, repr(rate))],
            self._options | sample.options,
        )


_WRONG_KIND = {
    True: "`{}` is a batch DataFrame, and stream() joins streams: call batch().",
    False: "`{0}` is a stream, and batch() joins batch DataFrames: call stream(), or batch({0}=...).",
}


def _start(since: str | datetime | None) -> Column | None:
    match since:
        case None:
            return None
        case str():
            return lit(since).cast("timestamp")
        case datetime():
            return lit(since)
        case _:
            raise TypeError(f"`since` is a string or a datetime, not {type(since).__name__}.")


def _rate(value: float) -> float:
    return _number(value, "rates")


def _number(value: float, argument: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"`{argument}` is a number from 0 to 1, not {type(value).__name__}.")
    return float(value)
