"""What a sample at a ratio refuses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

import tailrace
from example_frames import examples
from tailrace import TailraceJoinError
from test_examples_ratio import _OVER, _STEPS, _sampled, _tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_INVALID, _CONFLICT, _NEEDS = (f"TAILRACE_OPTION_{name}" for name in ("INVALID", "CONFLICT", "NEEDS"))


@pytest.mark.parametrize(
    ("given", "condition", "text"),
    [
        ({"ratio": {}}, _INVALID, "`ratio` of tailrace.examples is '{}'. It has to be one label or more"),
        ({"ratio": {"click": 0}}, _INVALID, "`the ratio of 'click'` of tailrace.examples is '0.0'"),
        ({"ratio": {"click": -1}}, _INVALID, "is '-1.0'. It has to be a number above 0"),
        ({"ratio": {"click": math.nan}}, _INVALID, "is 'nan'. It has to be a number above 0"),
        ({"ratio": {"click": math.inf}}, _INVALID, "is 'inf'. It has to be a number above 0"),
        (
            {"ratio": {"clik": 1}},
            _INVALID,
            "`ratio` of tailrace.examples is 'clik'. It has to be names of labels: 'click'",
        ),
        ({"ratio": {"click": 1, "CLICK": 2}}, _INVALID, "is 'click'. It has to be each label once"),
        ({"over": "0 seconds"}, _INVALID, "`over` of tailrace.examples is '0 seconds'"),
        ({"over": "1 month"}, _INVALID, "months and years have no fixed length"),
        (
            {"start": 0},
            _INVALID,
            "`start` of tailrace.examples is '0.0'. It has to be above 0, and at most 1",
        ),
        ({"start": 1.5}, _INVALID, "`start` of tailrace.examples is '1.5'"),
        ({"start": math.nan}, _INVALID, "`start` of tailrace.examples is 'nan'"),
        ({"rates": {"size(click) = 0": 0.5}}, _CONFLICT, "`rates` of tailrace.examples"),
        ({"rates": {}, "ratio": None, "over": None}, _INVALID, "or none with `ratio`"),
        ({"rates": {"true": 0.5}, "ratio": None}, _NEEDS, "`over` of tailrace.examples"),
        ({"rates": {"true": 0.5}, "ratio": None, "over": None, "start": 0.5}, _NEEDS, "`start` of"),
    ],
)
def test_hostile_ratios_are_refused(
    spark: SparkSession, given: dict[str, Any], condition: str, text: str
) -> None:
    with pytest.raises(TailraceJoinError) as caught:
        _sampled(*_tables(spark, _STEPS[:1]), **given).batch()
    assert caught.value.condition == condition
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        ("click", "`ratio` must be a Mapping such as"),
        ({"click": "3"}, "`ratio` must be a number above 0, not str"),
        ({"click": True}, "`ratio` must be a number above 0, not bool"),
        ({"click": 10**400}, "`ratio` must be a number above 0, not one of 401 digits"),
        ({3: 1.0}, "`ratio` must be a string, not int"),
    ],
)
def test_a_ratio_of_another_type_is_refused(spark: SparkSession, ratio: Any, text: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=text):
        _sampled(*_tables(spark, _STEPS[:1]), ratio=ratio)


def test_versions_of_an_example_have_no_ratio(spark: SparkSession) -> None:
    impressions, clicks = _tables(spark, _STEPS[:1])
    horizons = _sampled(impressions, clicks).horizons("5 seconds")
    amended = examples(impressions, amend_for="1 minute").label(
        "click", clicks, time="at", after="10 seconds"
    )
    for made, argument in (
        (horizons, "horizons"),
        (amended.sample(ratio={"click": 1}, seed=1), "amend_for"),
    ):
        with pytest.raises(TailraceJoinError, match=f"`{argument}` of tailrace.examples") as caught:
            made.batch()
        assert caught.value.condition == _CONFLICT
        assert "versions of one example would be decided by several rates" in str(caught.value)


def test_impressions_that_change_are_refused_in_a_batch(spark: SparkSession) -> None:
    impressions, clicks = _tables(spark, _STEPS[:1])
    with pytest.raises(TailraceJoinError, match="are the same each time they are read") as caught:
        _sampled(impressions.where("rand() < 0.5"), clicks).batch()
    assert caught.value.condition == _INVALID


def test_reconcile_refuses_a_ratio(spark: SparkSession) -> None:
    tables = _tables(spark, _STEPS[:1])
    made = _sampled(*tables)
    with pytest.raises(TailraceJoinError, match="keep other negatives") as caught:
        tailrace.reconcile(made.batch(), made)
    assert caught.value.condition == _CONFLICT


def test_a_ratio_is_shown_as_its_call(spark: SparkSession) -> None:
    made = _sampled(*_tables(spark, _STEPS[:1]), start=0.5)
    shown = f".sample(ratio={{'click': 2.0}}, seed=7, over='{_OVER} seconds', start=0.5)"
    assert repr(made).splitlines()[-1].strip() == shown
