"""The completeness rule: how many hosts may lag, and the low watermark that follows."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tailrace.server.times import EARLIEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

# 18 digits: a share of hosts finer than any roster, and small enough to compute with exactly.
COMPLETENESS = r"^(0\.\d{1,18}|1|1\.0{1,18})$"


@lru_cache(maxsize=1_024)
def parse_completeness(text: str) -> Fraction:
    """Reads a share of hosts exactly.

    Args:
        text: a decimal of 0 < r <= 1, for instance "0.999".

    Raises:
        ValueError: it is none.
    """
    if re.fullmatch(COMPLETENESS, text) is None or not text.strip("0."):
        raise ValueError(f"completeness {text!r} is no decimal above 0 and up to 1, for instance 0.999")
    return Fraction(text)


def allowed(hosts: int, completeness: Fraction) -> int:
    """The number of hosts that may not have passed a time: floor(hosts x (1 - completeness)), exactly.

    In binary floating point 1000 x (1 - 0.999) is 1.0000000000000009, and 10 x (1 - 0.9) is less than 1.

    Args:
        hosts: the number of hosts, 0 or more.
        completeness: a result of `parse_completeness`.
    """
    return int(hosts * (1 - completeness))


def low_watermark(progress: NDArray[np.int64], completeness: Fraction) -> int | None:
    """The (allowed + 1)-th smallest progress: the last time that enough hosts have passed.

    Args:
        progress: of each host that counts, in microseconds; `NEVER` for one never seen.
        completeness: the share of them that must have passed.

    Returns:
        Microseconds; None, minus infinity, where a host that was never seen decides, or there are no hosts.
    """
    if not len(progress):
        return None
    rank = allowed(len(progress), completeness)
    smallest = int(progress.min())
    # Logs with times in seconds have many equal ones, of which numpy's selection takes 20 times as long.
    if np.count_nonzero(progress == smallest) <= rank:
        smallest = int(np.partition(progress, rank)[rank])
    return known(smallest)


def known(time: int | None) -> int | None:
    """A low watermark; None, minus infinity, where there is none yet."""
    return None if time is None or time <= EARLIEST else time
