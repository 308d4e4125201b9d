"""Rates, sizes and durations of `tailrace size`, as people write them."""

from __future__ import annotations

import pytest

from tailrace.sizing import quantities


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5M", 5e6),
        ("300k", 3e5),
        ("1,200", 1200),
        ("1_200", 1200),
        ("0.5G/s", 5e8),
        ("20 k rows/s", 2e4),
        ("7", 7),
    ],
)
def test_rates(text: str, number: float) -> None:
    assert quantities.rate(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("200", 200),
        ("200 bytes", 200),
        ("1k", 1000),
        ("1.5 kB", 1500),
        ("64MB", 64e6),
        ("2 TB", 2e12),
        ("9 B", 9),
    ],
)
def test_sizes(text: str, number: float) -> None:
    assert quantities.size(text) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24 hours", 86_400),
        ("1 hour", 3600),
        ("24h", 86_400),
        ("30 minutes", 1800),
        ("22.5 min", 1350),
        ("10s", 10),
        ("30ms", 0.03),
        ("2 days", 172_800),
        ("1 week", 604_800),
        ("0 seconds", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert quantities.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (quantities.rate, "many", "'many' isn't a rate. Write rows a second, such as 5M, 300k or 1200"),
        (quantities.rate, "5 x", "'x' is none of k, M, G"),
        (quantities.rate, "-5", "'-5' isn't a rate"),
        (quantities.size, "1 hour", "'hour' is none of B, k, kB, MB, GB, TB"),
        (quantities.size, "", "'' isn't a size"),
        (quantities.duration, "24", "it has no unit"),
        (quantities.duration, "3 parsecs", "'parsecs' is no unit of time"),
        (quantities.duration, "1 hour 30 min", "isn't a duration"),
    ],
)
def test_what_is_none_is_refused_with_an_example(read: object, text: str, says: str) -> None:
    assert callable(read)
    with pytest.raises(ValueError, match=r"Write|Units") as refused:
        read(text)
    assert says in str(refused.value)


def test_numbers_are_shown_with_about_three_digits() -> None:
    assert [quantities.show_count(n) for n in (0, 950, 1234, 999_999, 4.33e11)] == [
        "0",
        "950",
        "1.23 k",
        "1 M",
        "433 G",
    ]
    assert [quantities.show_bytes(n) for n in (200, 1200, 9.5e13)] == ["200 B", "1.2 kB", "95 TB"]


def test_durations_are_shown_in_the_largest_unit_that_fits() -> None:
    shown = [quantities.show_seconds(s) for s in (0, 0.03, 9.5, 90, 1350, 86_400, 604_800)]
    assert shown == ["0 s", "30 ms", "9.5 s", "1.5 min", "22.5 min", "24 h", "7 d"]
