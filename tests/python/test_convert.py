from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from itertools import repeat
from types import SimpleNamespace
from typing import Any, TypeAlias, cast
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailrace
from tailrace._bridge import arguments as _convert
from tailrace._bridge import calls
from tailrace._bridge.document import written
from tailrace.kafka import _records

# A caller without a type checker may pass these.
WrongType: TypeAlias = Any

# Names need no DataFrame.
SIDE = _convert.Columns("tailrace.join", cast("Any", None))


def test_a_duration_string_is_left_to_spark() -> None:
    assert _convert.duration("1 hour 500 milliseconds", "after") == "1 hour 500 milliseconds"


def _written(value: object) -> Any:  # noqa: ANN401  any JSON
    return json.loads(written("join", {"argument": value}).json)["argument"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(), 0),
        (timedelta(minutes=30), 1800000000),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=-1), -1000000),
    ],
)
def test_a_timedelta_is_whole_microseconds(value: timedelta, expected: int) -> None:
    assert _written(_convert.duration(value, "after")) == expected


@given(st.timedeltas())
def test_no_timedelta_is_rounded(value: timedelta) -> None:
    assert timedelta(microseconds=1) * _written(_convert.duration(value, "after")) == value


def test_an_argument_that_is_none_is_left_out() -> None:
    assert written("join", {"early": None, "labels": [{"since": None, "name": "a"}]}).json == (
        '{"labels": [{"name": "a"}]}'
    )


@pytest.mark.parametrize("value", [b"abc", object(), {1}, float("nan")])
def test_a_value_without_json_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        written("join", {"argument": value})


@pytest.mark.parametrize("value", [30, 1.5, None, b"1 hour"])
def test_a_duration_without_a_unit_is_refused(value: WrongType) -> None:
    with pytest.raises(TypeError, match=r"`before` must be a duration.*30 minutes"):
        _convert.duration(value, "before")


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("a", [("a", "a")]),
        (["a"], [("a", "a")]),
        (["a", ("b", "c")], [("a", "a"), ("b", "c")]),
        (("a", "b"), [("a", "a"), ("b", "b")]),
        ([["a", "b"]], [("a", "b")]),
        ([], []),
    ],
)
def test_keys_become_pairs(on: WrongType, expected: list[tuple[str, str]]) -> None:
    assert _convert.keys(on, SIDE, SIDE) == expected


@pytest.mark.parametrize("on", [1, None, [1], [("a",)], [("a", "b", "c")], [("a", 1)], [None]])
def test_keys_of_another_type_are_refused(on: WrongType) -> None:
    with pytest.raises(TypeError, match=r"`on`"):
        _convert.keys(on, SIDE, SIDE)


def test_a_name_is_a_string() -> None:
    assert _convert.text("ts", "left_time") == "ts"
    not_a_name: Any = object()
    with pytest.raises(TypeError, match=r"`left_time` must be a string, not object"):
        _convert.text(not_a_name, "left_time")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("99.9%", "99.9%"),
        (0.999, "0.999"),
        (1, "1"),
        (1e-05, "0.00001"),
        (Decimal("0.9990"), "0.9990"),
        (0.1 + 0.2, "0.30000000000000004"),
    ],
)
def test_a_share_that_is_a_number_is_taken_by_its_digits(value: float, expected: str) -> None:
    assert _convert.share(value, "completeness") == expected


@pytest.mark.parametrize("value", [True, None, b"1"])
def test_a_share_of_another_type_is_refused(value: WrongType) -> None:
    with pytest.raises(TypeError, match=r"`completeness` must be a share"):
        _convert.share(value, "completeness")


def test_a_count_is_a_whole_number() -> None:
    assert _convert.count(3, "max_matches") == 3


@pytest.mark.parametrize("value", [True, 1.0, "3"])
def test_a_count_of_another_type_is_refused(value: WrongType) -> None:
    with pytest.raises(TypeError, match=r"`max_matches` must be a whole number"):
        _convert.count(value, "max_matches")


def test_one_name_alone_isnt_taken_for_its_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a sink waits for the operators "s", "o", "u", ... for ever, and says nothing."""
    given: dict[str, Any] = {}

    def plan(call: str, _frame: object, /, **arguments: object) -> MagicMock:
        given[call] = arguments
        return MagicMock()

    monkeypatch.setattr(_convert, "frame", lambda *_: None)
    monkeypatch.setattr(calls, "plan", plan)
    frame: Any = SimpleNamespace(columns=[])
    tailrace.write_windows(frame, "/data", "ts", upstreams="source")
    assert given["write_windows"]["upstreams"] == ["source"]
    tailrace.stamped_watermark(frame, "ts", partition="shard", partitions="t-0")
    assert given["stamped_watermark"]["partition"] == ["shard"]
    assert given["stamped_watermark"]["partitions"] == ["t-0"]
    tailrace.filter_replays(frame, order="offset")
    assert given["filter_replays"]["order"] == ["offset"]
    tailrace.write_windows(frame, "/data", "ts")
    assert given["write_windows"]["upstreams"] is None
    tailrace.stamped_watermark(frame, "ts", partitions=["t-0", "t-1"])
    assert given["stamped_watermark"]["partition"] == ["topic", "partition"]
    assert given["stamped_watermark"]["partitions"] == ["t-0", "t-1"]


@pytest.mark.parametrize("argument", ["values", "keys"])
@pytest.mark.parametrize("one", ["one", b"one"])
def test_one_text_alone_isnt_a_record_for_each_letter(argument: str, one: WrongType) -> None:
    given: dict[str, Any] = {"values": ["a", "b", "c"], "keys": None, argument: one}
    with pytest.raises(
        TypeError, match=rf"`{argument}` must be a list.*\['one'\]|`{argument}` must be a list.*\[b'one'\]"
    ):
        list(_records(given["values"], given["keys"], repeat(None), None))
