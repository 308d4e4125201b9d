from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.server.hosts import HostTable
from tailrace.server.rules import allowed, low_watermark, parse_completeness
from tailrace.server.times import NEVER
from tailrace.server.topology import LowWatermarks, Node, find_cycle, held_by, layers, low_watermarks, sort

if TYPE_CHECKING:
    from pathlib import Path

ONE = Fraction(1)


@pytest.fixture(scope="module")
def golden(repository: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((repository / "tests/golden/completeness.json").read_text())
    return found


def test_the_golden_counts_of_hosts_that_may_lag(golden: list[dict[str, Any]]) -> None:
    assert len(golden) > 40
    for case in golden:
        assert allowed(case["hosts"], parse_completeness(case["completeness"])) == case["allowed"], case


def test_the_golden_low_watermarks(golden: list[dict[str, Any]]) -> None:
    cases = [case for case in golden if "progress" in case]
    assert len(cases) > 10
    for case in cases:
        progress = np.array([NEVER if t is None else t for t in case["progress"]], np.int64)
        assert low_watermark(progress, parse_completeness(case["completeness"])) == case["low_watermark"], (
            case
        )


@pytest.mark.parametrize(
    ("hosts", "completeness", "expected"),
    [(1_000, "0.999", 1), (999, "0.999", 0), (1_000, "1", 0), (10, "0.9", 1), (100_000, "0.99999", 1)],
)
def test_the_rule_is_exact(hosts: int, completeness: str, expected: int) -> None:
    assert allowed(hosts, parse_completeness(completeness)) == expected


@pytest.mark.parametrize(
    "text", ["0", "0.0", "1.1", "1.01", "-0.5", ".5", "5", "99.9%", "0.9e1", "", "0.9 ", "½", "0." + "9" * 19]
)
def test_an_invalid_completeness_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no decimal"):
        parse_completeness(text)


progresses = st.lists(st.one_of(st.just(NEVER), st.integers(0, 50)), min_size=1, max_size=60)
shares = st.integers(1, 1_000).map(lambda n: f"0.{n:03d}" if n < 1_000 else "1")


@given(progresses, shares)
def test_the_rule_equals_sorting(progress: list[int], share: str) -> None:
    low = low_watermark(np.array(progress, np.int64), parse_completeness(share))
    expected = sorted(progress)[len(progress) * (1_000 - int(Fraction(share) * 1_000)) // 1_000]
    assert low == (None if expected == NEVER else expected)
    # All but the allowed hosts have passed what it says.
    assert sum(p < (NEVER if low is None else low) for p in progress) <= allowed(
        len(progress), parse_completeness(share)
    )


def computed(
    nodes: dict[str, Node], outputs: dict[str, int | None] | None = None, told: int | None = None
) -> LowWatermarks:
    order = sort({name: node.upstreams for name, node in nodes.items()})
    return low_watermarks(nodes, order, outputs or {}, told=told)


def test_a_chain_of_operators_has_the_min_of_all_before() -> None:
    low = computed(
        {
            "sink": Node(upstreams=("join",), sink=True, bounds_output=[90]),
            "join": Node(upstreams=("a", "b"), bounds_output=[75, 60]),
            "a": Node(bounds_output=[100]),
            "b": Node(bounds_output=[80]),
        }
    )
    assert low.outputs == {"a": 100, "b": 80, "join": 60, "sink": 60}
    assert low.inputs == {"a": None, "b": None, "join": 80, "sink": 60}
    assert low.application == 60


def test_an_operator_that_holds_nothing_passes_its_input_on() -> None:
    low = computed({"a": Node(bounds_output=[5]), "map": Node(upstreams=("a",))})
    assert (low.outputs["map"], low.application) == (5, 5)


def test_unknown_is_minus_infinity() -> None:
    low = computed(
        {
            "a": Node(bounds_output=[5]),
            "b": Node(upstreams=("a", "of another query"), bounds_output=[3]),
            "c": Node(upstreams=("b",)),
        },
        outputs={"c": 2},
    )
    assert low.outputs == {"a": 5, "b": None, "c": 2}
    assert low.application == 2
    assert computed({}).application is None


def test_stamps_bound_a_source() -> None:
    low = computed({"a": Node(bounds_input=[7], bounds_output=[9]), "b": Node(bounds_input=[7])})
    assert low.inputs == {"a": 7, "b": 7}
    assert low.outputs == {"a": 7, "b": 7}


def test_the_global_watermark_is_of_the_sinks_or_else_of_the_ends() -> None:
    a, b = Node(bounds_output=[5]), Node(upstreams=("a",), bounds_output=[3])
    assert computed({"a": a, "b": b}).application == 3
    assert computed({"a": a, "b": b, "s": Node(upstreams=("a",), sink=True)}).application == 5


def test_answers_never_fall() -> None:
    low = computed({"a": Node(bounds_output=[5]), "b": Node(upstreams=("a",))}, outputs={"a": 8}, told=10)
    assert (low.outputs, low.application) == ({"a": 8, "b": 8}, 10)


def test_a_cycle_is_found_and_named() -> None:
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["x"]}) is None
    cycle = find_cycle({"a": ["b"], "b": ["c"], "c": ["a"], "d": []})
    assert cycle is not None
    assert (cycle[0], set(cycle)) == (cycle[-1], {"a", "b", "c"})
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({str(n): [str(n + 1)] for n in range(1_000)}) is None


def test_the_holder_is_the_first_operator_that_is_as_low() -> None:
    upstreams = {"a": (), "b": (), "join": ("a", "b"), "sink": ("join",)}
    low = LowWatermarks(outputs={"a": 9, "b": 3, "join": 3, "sink": 3}, application=3)
    assert held_by(upstreams, low) == ["b"]
    assert held_by({"c": ("not known",)}, LowWatermarks(outputs={"c": None})) == ["c"]


def test_layers_are_the_longest_way_from_a_source() -> None:
    assert layers({"s": ("j", "a"), "j": ("a", "b"), "a": (), "b": ("elsewhere",)}) == {
        "a": 0,
        "b": 0,
        "j": 1,
        "s": 2,
    }


def test_hosts_count_when_rostered_or_seen_and_not_excluded() -> None:
    excluded: set[str] = set()
    hosts = HostTable(excluded)
    assert hosts.counted().low_watermark(ONE) is None
    hosts.advance({"a": 5, "b": 9})
    assert (hosts.counted().low_watermark(ONE), hosts.counted().counting(), hosts.counted().newest()) == (
        5,
        2,
        9,
    )
    hosts.set_roster(["a", "b", "c"])
    assert (hosts.counted().low_watermark(ONE), hosts.counted().low_watermark(Fraction(1, 2))) == (None, 5)
    excluded.add("c")
    hosts.exclusions_changed()
    assert (hosts.counted().low_watermark(ONE), hosts.counted().counting(), hosts.counted().excluded()) == (
        5,
        2,
        ["c"],
    )
    excluded.clear()
    hosts.exclusions_changed()
    hosts.set_roster(["b"])
    assert (hosts.counted().low_watermark(ONE), hosts.roster()) == (9, {"b"})
    hosts.set_roster([])
    assert (hosts.counted().low_watermark(ONE), hosts.counted().counting()) == (5, 2)


def test_the_slowest_hosts_come_first_and_equal_ones_by_name() -> None:
    hosts = HostTable()
    hosts.set_roster(["never"])
    hosts.advance({f"h{n:03d}": 1_000 - n // 2 for n in range(300)})
    assert [h.name for h in hosts.counted().slowest(4)] == ["never", "h298", "h299", "h296"]
    assert [h.progress for h in hosts.counted().slowest(2)] == [None, 851]
    assert len(hosts.counted().slowest(1_000)) == 301
    assert [h.counts for h in hosts.counted().slowest(2)] == [True, False]


@given(st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 20), max_size=5), max_size=12))
def test_a_table_holds_the_maxima(deltas: list[dict[str, int]]) -> None:
    hosts = HostTable()
    expected: dict[str, int] = {}
    for delta in deltas:
        news = hosts.news(delta)
        assert news == {name: time for name, time in delta.items() if time > expected.get(name, NEVER)}
        hosts.advance(news)
        expected.update(news)
    assert {host.name: host.progress for host in hosts.counted().slowest(100)} == expected
