"""The inputs of a sizing: two streams, a join, the machines, the object store."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

RELEASE_STEPS = 64  # of `release_every`, unless it is named (ADR 14)


_MOST = 1e18  # a nonsensical number would give a nonsensical cluster


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) <= _MOST


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of a provider, in any currency; None where the cost isn't needed.

    Attributes:
        put: for 1,000 PUT requests.
        get: for 1,000 GET requests.
        gb_month: for a gigabyte that is stored for a month of 30 days.
        core_hour: for a core of an executor, with its memory and disk.
    """

    put: float | None = None
    get: float | None = None
    gb_month: float | None = None
    core_hour: float | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    """A label join (`how="left"`), and its environment.

    Attributes:
        left: rows a second of the left stream.
        right: rows a second of the right stream.
        left_bytes: of a left row in a shuffle, compressed if its values compress well.
        right_bytes: of a right row.
        after: seconds; of the join's window.
        before: seconds; of the join's window.
        delay: seconds; of the watermarks.
        trigger: seconds from a micro-batch to the next.
        partitions: of the state; None to have a number suggested.
        cores: of all executors; None to have a number suggested.
        eager: matching on arrival, `spark.tailrace.join.strategy` = `eager`.
        release_every: seconds; None for the default, 0 for "batch".
        matches: right rows that match a left row, on average.
        origins: producers times source partitions of a replay filter; 0 without one.
        hosts: of an accurate watermark; 0 without one.
        windows_open: windows of `write_windows` that get rows in one micro-batch; 0 without it.
        executor_cores: of one executor.
        executor_memory: bytes of heap of one executor; None if it isn't to be checked.
        executor_disk: bytes of local disk of one executor; None if it isn't to be checked.
        driver_memory: bytes of heap of the driver; None if it isn't to be checked.
        recovery: seconds in which the partitions of a lost executor have to be back; None for no bound.
        latency: seconds of a request to the object store.
        download: bytes a second that one executor reads from it, by all of its tasks.
        writes: PUTs a second that it takes, of one prefix.
        prices: of the provider.
    """

    left: float
    right: float
    left_bytes: float
    right_bytes: float
    after: float
    before: float = 0.0
    delay: float = 600.0
    trigger: float = 10.0
    partitions: int | None = None
    cores: int | None = None
    eager: bool = False
    release_every: float | None = None
    matches: float = 0.5
    origins: int = 0
    hosts: int = 0
    windows_open: int = 0
    executor_cores: int = 4
    executor_memory: float | None = None
    executor_disk: float | None = None
    driver_memory: float | None = None
    recovery: float | None = None
    latency: float = 0.03
    download: float = 500e6
    writes: float = 3500.0
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        self._check_numbers()
        above = {
            "left",
            "right",
            "left_bytes",
            "right_bytes",
            "trigger",
            "executor_cores",
            "download",
            "writes",
        }
        optional = {"partitions", "cores", "executor_memory", "executor_disk", "driver_memory", "recovery"}
        for name in above:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} has to be above 0, and is {getattr(self, name):g}.")
        for name in {f.name for f in fields(self)} - above - {"prices", "eager"}:
            value = getattr(self, name)
            if value is not None and (value < 0 or (value == 0 and name in optional)):
                least = "above 0" if name in optional else "0 or more"
                raise ValueError(f"{name} has to be {least}, and is {value:g}.")
        if self.window <= 0:
            raise ValueError("before and after are both 0: the join has no window. Set one of them.")
        if self.release_every is not None and self.release_every > self.window:
            raise ValueError(
                "release_every is longer than the window: rows would wait longer than they match. Set it to "
                "at most before + after."
            )

    def _check_numbers(self) -> None:
        names = {f.name for f in fields(self)} - {"prices", "eager"}
        prices = {f"The price {f.name}": getattr(self.prices, f.name) for f in fields(self.prices)}
        for name, value in ({name: getattr(self, name) for name in names} | prices).items():
            if value is not None and not _is_number(value):
                raise ValueError(f"{name} has to be a number up to 1e18, and is {value!r}.")
        for name, price in prices.items():
            if price is not None and price < 0:
                raise ValueError(f"{name} has to be 0 or more, and is {price:g}.")

    @property
    def window(self) -> float:
        """Seconds from the first right row that may match to the last one."""
        return self.before + self.after

    @property
    def rows(self) -> float:
        """Rows a second of both streams."""
        return self.left + self.right

    @property
    def bytes(self) -> float:
        """Bytes a second of both streams."""
        return self.left * self.left_bytes + self.right * self.right_bytes

    @property
    def step(self) -> float:
        """The maximum seconds for which expired left rows stay buffered; 0 for none."""
        return self.window / RELEASE_STEPS if self.release_every is None else self.release_every
