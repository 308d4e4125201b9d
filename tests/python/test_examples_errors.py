"""What an error of `examples` says: whose argument is wrong, in the words of the call."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_frames import SCHEMA, examples, frame
from tailrace import TailraceJoinError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tailrace.testing import StreamTest


def _label(spark: SparkSession, **options: Any) -> DataFrame:  # noqa: ANN401
    given: dict[str, Any] = {"time": "at", "after": "1 second"} | options
    rows = frame(spark, (1, 7, 0))
    return examples(rows).label(given.pop("name", "click"), rows, **given).batch()


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"time": "when"}, ["`time` of tailrace.examples, label 'click'", "the DataFrame of label 'click'"]),
        ({"time": "id"}, ["`time` of tailrace.examples, label 'click'", "BIGINT"]),
        ({"on": "who"}, ["`on` of tailrace.examples, label 'click'", "the impressions"]),
        ({"on": [("user", "who")]}, ["`on` of tailrace.examples, label 'click'", "of label 'click'"]),
        ({"name": "id"}, ["the impressions", "Choose another name than 'id' for `name`"]),
        ({"since": "soon"}, ["`since` of tailrace.examples, label 'click' is 'soon'", "2026-01-31"]),
        ({"where": "price > 1"}, ["`where` of tailrace.examples, label 'click'", "`price`", "id, user, at"]),
        ({"where": "id >"}, ["`where` of tailrace.examples, label 'click'", "PARSE_SYNTAX_ERROR"]),
        ({"where": "id"}, ["`where` of tailrace.examples, label 'click'", "BOOLEAN"]),
        (
            {"on_stall": "exclude"},
            ["`on_stall` of tailrace.examples, label 'click'", "stall_after='5 minute"],
        ),
        ({"on_stall": "fail"}, ["`on_stall` of tailrace.examples, label 'click'", "stall_after='5 minutes'"]),
        ({"on_stall": "wait"}, ["`on_stall` of tailrace.examples, label 'click'", "'exclude' or 'fail'"]),
        ({"stall_after": "later"}, ["`stall_after` of tailrace.examples, label 'click'"]),
    ],
)
def test_an_error_names_the_label_and_its_argument(
    spark: SparkSession, options: dict[str, Any], texts: list[str]
) -> None:
    with pytest.raises(TailraceJoinError) as caught:
        _label(spark, **options)
    message = str(caught.value)
    assert [text for text in texts if text not in message] == [], message
    assert not any(word in message for word in ("left_time", "right_time", "`into`", "right side"))


@pytest.mark.parametrize(
    "since", ["2026-01-01", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "2026-01-01 00:00:00+01:00"]
)
def test_a_time_that_can_be_read_is_taken(spark: SparkSession, since: str | dt.datetime) -> None:
    assert _label(spark, since=since).count() == 1


def test_a_stream_without_a_watermark_is_named(stream_test: StreamTest) -> None:
    served, clicked = (stream_test.source(SCHEMA).frame for _ in range(2))
    marked = served.withWatermark("at", "1 second")
    with pytest.raises(TailraceJoinError, match="of the DataFrame of label 'click' has no watermark"):
        examples(marked).label("click", clicked, time="at", after="1 second").stream()
    with pytest.raises(TailraceJoinError, match="`at` of the impressions has no watermark"):
        examples(served).label("click", marked, time="at", after="1 second").stream()
    made = examples(marked).label("click", marked, time="at", after="1 second")
    with pytest.raises(TailraceJoinError, match="of the DataFrame of features 'profile' has no watermark"):
        made.features("profile", clicked, time="at").stream()


def test_features_are_named(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))
    made = examples(rows).label("click", rows, time="at", after="1 second")
    with pytest.raises(TailraceJoinError, match=r"`time` of tailrace\.examples, features 'profile'"):
        made.features("profile", rows, time="when").batch()
    with pytest.raises(TailraceJoinError, match="Choose another name than 'id' for `name`"):
        made.features("id", rows, time="at").batch()


@pytest.mark.parametrize(("predicate", "text"), [("size(buy) = 0", "`buy`"), ("size(", "PARSE_SYNTAX_ERROR")])
def test_a_predicate_that_cant_be_read_is_named(spark: SparkSession, predicate: str, text: str) -> None:
    rows = frame(spark, (1, 7, 0))
    made = examples(rows).label("click", rows, time="at", after="1 second").sample({predicate: 0.5}, seed=1)
    with pytest.raises(TailraceJoinError) as caught:
        made.batch()
    message = str(caught.value)
    assert f'"{predicate}" in `rates` of tailrace.examples' in message
    assert text in message
    assert "id, user, at, click" in message


def test_two_definitions_of_one_name_are_refused(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))

    def made(**more: Any) -> DataFrame:  # noqa: ANN401
        return examples(rows, **more).label("click", rows, time="at", after="1 second").batch()

    with pytest.raises(TailraceJoinError, match=r"count under the name `tailrace\.examples`"):
        made().union(made()).count()
    with pytest.raises(TailraceJoinError, match=r"count under the name `tailrace\.examples\.both`"):
        made(name="both").union(made(name="both")).count()
    # One result that is used twice is one definition.
    one = made()
    assert one.union(one).count() == 2
    assert made(name="a").union(made(name="b")).count() == 2


@pytest.mark.parametrize("argument", ["labels", "arrival", "positive"])
def test_label_maturity_takes_mappings(spark: SparkSession, argument: str) -> None:
    given: dict[str, Any] = {"labels": {"click": "at"}} | {argument: "click"}
    with pytest.raises(TypeError, match=f"`{argument}` must be a Mapping, not str"):
        tailrace.label_maturity(spark, _label(spark), time="at", **given)


def test_a_sample_without_a_predicate_is_refused(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))
    made = examples(rows).label("click", rows, time="at", after="1 second")
    with pytest.raises(TailraceJoinError, match=r"`rates` of tailrace\.examples is .*predicate") as caught:
        made.sample({}, seed=1)
    assert caught.value.condition == "TAILRACE_OPTION_INVALID"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: tailrace.position(0.5, -0.1, 0.6),
            "`middle` of tailrace.position is '-0.1'. It has to be 0 or",
        ),
        (lambda: tailrace.position(0.5, 0.5, float("nan")), "`last` of tailrace.position is 'nan'"),
        (
            lambda: tailrace.position(0.5, 0.1, 0.1),
            "is '0.5, 0.1, 0.1'. It has to be three shares that sum to 1",
        ),
        (lambda: tailrace.time_decay(dt.timedelta(0)), "`half_life` of tailrace.time_decay is '0 seconds'"),
        (
            lambda: tailrace.time_decay(dt.timedelta(hours=-1, minutes=-30)),
            "`half_life` of tailrace.time_decay is '-1 hour -30 minutes'",
        ),
    ],
)
def test_a_credit_that_cant_be_is_refused_by_its_call(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TailraceJoinError) as caught:
        call()
    assert caught.value.condition == "TAILRACE_OPTION_INVALID"
    assert text in str(caught.value)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_rate_that_cant_be_is_refused_by_its_call(spark: SparkSession, share: float) -> None:
    made = examples(frame(spark, (1, 7, 0)))
    with pytest.raises(TailraceJoinError, match=f"`the rate of true` .* is '{share}'. It has to be 0 to 1"):
        made.sample({"true": share}, seed=1)


def test_a_label_that_has_the_on_of_all_is_told_so(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))
    clicks = rows.withColumnRenamed("user", "who")
    made = examples(rows).label("click", clicks, time="at", after="1 second")
    with pytest.raises(TailraceJoinError, match="label 'click' names the column `user`") as caught:
        made.batch()
    (note,) = caught.value.__notes__
    assert note.startswith("'click' has the `on` of tailrace.examples. It may have its own: on=[(")
    with pytest.raises(TailraceJoinError) as caught:
        examples(rows).label("click", clicks, on=["user"], time="at", after="1 second").batch()
    assert not hasattr(caught.value, "__notes__")


def test_a_dataframe_of_another_library_is_called_so(spark: SparkSession) -> None:
    pandas = pytest.importorskip("pandas")
    rows = frame(spark, (1, 7, 0))
    with pytest.raises(
        TypeError, match=r"not pandas\.DataFrame\. Make one of it: spark\.createDataFrame\(click"
    ):
        examples(rows).label("click", pandas.DataFrame({"user": [1]}), time="at", after="1 second")
    with pytest.raises(TypeError, match=r"`impressions` must be a pyspark\.sql\.DataFrame, not list\.$"):
        examples([])  # type: ignore[arg-type]


def test_a_definition_in_place_of_its_dataframe_names_the_calls_that_make_one(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))
    definition: Any = examples(rows).label("click", rows, time="at", after="1 second")
    for name in ("writeStream", "show", "toPandas"):
        with pytest.raises(AttributeError, match=r"`stream\(\)` or `batch\(\)` makes the") as caught:
            getattr(definition, name)
        assert caught.value.name == name
    with pytest.raises(AttributeError, match=r"has no attribute 'lable'$"):
        definition.lable  # noqa: B018  the look-up is what fails
    assert not hasattr(definition, "__array__")


def test_no_horizons_are_refused_by_both_calls(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))
    with pytest.raises(TypeError, match="`horizons` takes durations"):
        examples(rows).horizons()
    with pytest.raises(TypeError, match="`horizons` is an empty list"):
        tailrace.join(rows, rows, on="user", left_time="at", right_time="at", after="1 second", horizons=[])


def test_a_definition_is_shown_as_its_calls(spark: SparkSession) -> None:
    rows = frame(spark, (1, 7, 0))
    made = (
        tailrace.examples(rows, on=["user", "id"], time="at", idle_timeout="1 hour")
        .label("click", rows, time="at", after=dt.timedelta(minutes=10), match="first", max_matches=2)
        .label("buy", rows, on="user", time="at", after="1 day", where="id > 0", since="2026-01-01")
        .features("profile", rows, time="at", delay="1 minute")
        .horizons("10 minutes", "1 hour", emit="changes")
        .sample({"size(click) = 0": 0.1}, seed=7)
    )
    assert repr(made).splitlines() == [
        "examples(on=['user', 'id'], time='at', idle_timeout='1 hour')",
        "    .label('click', time='at', after=datetime.timedelta(seconds=600), match='first', max_matches=2)",
        "    .label('buy', on='user', time='at', after='1 day', where='id > 0', since='2026-01-01')",
        "    .features('profile', time='at', delay='1 minute')",
        "    .horizons('10 minutes', '1 hour', emit='changes')",
        "    .sample({'size(click) = 0': 0.1}, seed=7)",
    ]
    assert repr(examples(rows)) == "examples(on='user', time='at')"
    assert repr(examples(rows, name="second")) == "examples(on='user', time='at', name='second')"
