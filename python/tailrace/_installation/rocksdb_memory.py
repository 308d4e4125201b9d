"""The memory limit for RocksDB of Spark's own stateful operators on an executor."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "spark.sql.streaming.stateStore.rocksdb."
BOUNDED = f"{_PREFIX}boundedMemoryUsage"
MOST_MB = f"{_PREFIX}maxMemoryUsageMB"

_LEAST_OVERHEAD_MB = 384
_LEAST_MB = 64
_OWN_CACHE = "spark.tailrace.state.blockCacheBytes"
_OWN_CACHE_MB = 128
_UNITS_MB = {"b": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20, "p": 2.0**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgtp]?)b?")


def bounds(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that bound it: half of the memory beside an executor's heap that Tailrace leaves.

    Without them, RocksDB takes memory for each state partition of an executor, without a bound, until the
    executor is killed. An executor of 16 GiB has an overhead of 1.6 GiB: 128 MiB of it for Tailrace's
    cache, 755 MiB for Spark's RocksDB, and the rest for threads and buffers. In local mode there is no
    overhead, and Spark's own bound, 500 MiB, is left.

    Args:
        settings: of the user, by name. Those that the user has set aren't among the result.
    """
    wanted = {BOUNDED: "true"}
    if not settings.get("spark.master", "").startswith("local"):
        own = _mb(settings.get(_OWN_CACHE), "b")
        left = _overhead_mb(settings) - (_OWN_CACHE_MB if own is None else own)
        wanted[MOST_MB] = str(max(_LEAST_MB, int(left / 2)))
    return {name: value for name, value in wanted.items() if name not in settings}


def _overhead_mb(settings: Mapping[str, str]) -> float:
    given = _mb(settings.get("spark.executor.memoryOverhead"), "m")
    if given is not None:
        return given
    heap = _mb(settings.get("spark.executor.memory"), "m") or 1024.0
    factor = settings.get("spark.executor.memoryOverheadFactor", "0.1")
    # Spark itself reports an invalid number.
    share = float(factor) if re.fullmatch(r"\d*\.?\d+", factor) else 0.1
    least = _mb(settings.get("spark.executor.minMemoryOverhead"), "m") or _LEAST_OVERHEAD_MB
    return max(heap * share, least)


def _mb(text: str | None, unit: str) -> float | None:
    """MiB of a size as Spark reads it: "4g", or a number in the setting's own unit."""
    found = None if text is None else _SIZE.fullmatch(text.strip().lower())
    return None if found is None else float(found[1]) * _UNITS_MB[found[2] or unit]
