"""The guide's features in Feast beside `tailrace.as_of`, in an environment of its own (dev/trainers.py)."""

from __future__ import annotations

import datetime as dt
import math
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

import tailrace
from arrivals import arrive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from feast import FeatureStore
    from pyspark.sql import DataFrame, SparkSession


class Impression(NamedTuple):
    impression_id: int
    user_id: int | None
    served_at: str


class Profile(NamedTuple):
    user_id: int | None
    computed_at: str
    visits: int
    created_at: str = ""


_TIME = pa.timestamp("us", "UTC")


def at(time: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-01-01T{time}+00:00")


def impressions_table(rows: Sequence[Impression]) -> pa.Table:
    columns = {
        "impression_id": pa.array([row.impression_id for row in rows], pa.int64()),
        "user_id": pa.array([row.user_id for row in rows], pa.int64()),
        "served_at": pa.array([at(row.served_at) for row in rows], _TIME),
        "host": pa.array(["web-1"] * len(rows), pa.string()),
    }
    return pa.table(columns)


def profiles_table(rows: Sequence[Profile]) -> pa.Table:
    columns = {
        "user_id": pa.array([row.user_id for row in rows], pa.int64()),
        "computed_at": pa.array([at(row.computed_at) for row in rows], _TIME),
        "created_at": pa.array([at(row.created_at or row.computed_at) for row in rows], _TIME),
        "visits": pa.array([row.visits for row in rows], pa.int64()),
        "job": pa.array(["job-1"] * len(rows), pa.string()),
    }
    return pa.table(columns)


class Clicks:
    """A folder in which both streams arrive, are joined and landed as the guide does it."""

    def __init__(self, spark: SparkSession, folder: Path, defined: Callable[..., dict[str, Any]]) -> None:
        self.spark, self.folder, self.defined, self.arrivals = spark, folder, defined, 0
        self.land_both = defined("feast", "feast-land", folder)["land_both"]
        self.guide = defined("feast", "feast", folder)
        self.served: list[Impression] = []

    def arrive(self, impressions: Sequence[Impression], profiles: Sequence[Profile]) -> None:
        """Lands what has arrived, and these rows."""
        arrive(self.folder / "logs/impressions", self.arrivals, impressions_table(impressions))
        arrive(self.folder / "logs/profiles", self.arrivals, profiles_table(profiles))
        self.arrivals += 1
        self.served += impressions
        self.land_both(
            self._stream("impressions", "served_at", "host", "web-1"),
            self._stream("profiles", "computed_at", "job", "job-1"),
        )

    def _stream(self, name: str, time: str, host: str, only: str) -> DataFrame:
        path = str(self.folder / "logs" / name)
        frame = self.spark.readStream.schema(self.spark.read.parquet(path).schema).parquet(path)
        return tailrace.accurate_watermark(
            frame, time, host=host, hosts=[only], completeness="100%", name=name
        )

    def joined(self, **options: Any) -> dict[int, int | None]:  # noqa: ANN401 - those of as_of
        """What a batch job has with `as_of` of the landed profiles: visits by impression."""
        impressions = self.spark.read.parquet(str(self.folder / "logs/impressions"))
        profiles = self.spark.read.parquet(str(self.folder / "profiles"))
        given = {"on": "user_id", "left_time": "served_at", "right_time": "computed_at", "max_age": "1 hour"}
        joined = tailrace.as_of(impressions, profiles, **(given | options))
        return dict(joined.select("impression_id", "features.visits").toLocalIterator())

    def store(self, offline: str = "duckdb") -> FeatureStore:
        made: FeatureStore = self.guide["feature_store"](offline)
        return made

    def found(
        self, store: FeatureStore, view: str, delay: dt.timedelta = dt.timedelta(0)
    ) -> dict[int, int | None]:
        """What Feast has for the impressions: visits by impression."""
        frame = impressions_table(self.served).drop_columns(["host"]).to_pandas()
        # Without a time zone, as from Spark and from a WindowReader.
        frame["served_at"] = frame["served_at"].dt.tz_localize(None) - delay
        rows = self.guide["features"](store, view, frame).to_pylist()
        by_id = {row["impression_id"]: whole(row["visits"]) for row in rows}
        assert len(by_id) == len(rows)
        return by_id


def whole(number: float | None) -> int | None:
    """The integer: a column with nulls has passed through pandas in one of the stores."""
    return None if number is None or math.isnan(number) else int(number)


FIRST = (
    [
        Impression(1, 7, "12:00:00"),  # as the profile
        Impression(2, 7, "12:00:00"),  # another one of the page
        Impression(3, 7, "11:59:59.999999"),
        Impression(4, 7, "12:25:00"),
        Impression(5, 8, "12:40:00"),  # only a later profile
        Impression(6, 9, "12:00:00"),  # a profile that is an hour old
        Impression(7, 9, "12:00:00.000001"),  # and one that is older
        Impression(8, None, "12:30:00"),
        Impression(9, 10, "12:30:00"),  # no profile
        Impression(10, 1, "13:06:00"),  # no profile yet
    ],
    [
        Profile(7, "12:00:00", 1),
        Profile(7, "12:45:00", 2),
        Profile(8, "12:50:00", 3),
        Profile(9, "11:00:00", 4),
        Profile(None, "12:00:00", 99),
        Profile(1, "13:10:00", 5),
    ],
)
# The window of 12:00 is complete. That of 13:00 is open, and both watermarks are past 13:05.
SECOND = (
    [Impression(11, 7, "13:08:00"), Impression(12, 11, "13:30:00"), Impression(13, 1, "14:10:00")],
    [
        Profile(7, "12:20:00", 1000),
        Profile(7, "13:05:00", 6),
        Profile(11, "13:20:00", 20, created_at="13:20:01"),
        Profile(11, "13:20:00", 21, created_at="13:20:04"),
        Profile(1, "14:10:00", 7),
    ],
)
THIRD = ([Impression(14, 1, "15:10:00")], [Profile(1, "15:10:00", 8)])
# With the profiles that were landed before their window closed.
JOINED = {
    1: 1, 2: 1, 3: None, 4: 1, 5: None, 6: 4, 7: None,
    8: None, 9: None, 10: None, 11: 6, 12: 20, 13: 7, 14: 8,
}  # fmt: skip
# Of two profiles of one time, the last by content isn't the one that was created last.
IN_FEAST = JOINED | {12: 21}
# The profile of 13:05 was late for the stream, and the impression of 15:10 is buffered.
STREAMED = JOINED | {11: 2, 14: None}


@pytest.fixture(scope="module")
def clicks(
    tailrace_spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    defined: Callable[..., dict[str, Any]],
) -> Clicks:
    made = Clicks(tailrace_spark, tmp_path_factory.mktemp("clicks"), defined)
    for arrivals in (FIRST, SECOND, THIRD):
        made.arrive(*arrivals)
    return made


def test_feast_joins_profiles_as_a_batch_job_does(clicks: Clicks) -> None:
    assert clicks.joined() == JOINED
    assert clicks.found(clicks.store(), "profile") == IN_FEAST


def test_feast_looks_up_what_the_stream_has_joined(clicks: Clicks) -> None:
    assert clicks.found(clicks.store(), "example") == STREAMED


def test_a_delay_is_subtracted_from_the_times_of_the_impressions(clicks: Clicks) -> None:
    delayed = clicks.joined(delay="5 minutes")
    assert delayed != JOINED
    found = clicks.found(clicks.store(), "profile", delay=dt.timedelta(minutes=5))
    assert found == delayed | {12: 21}


def test_a_late_profile_of_a_complete_window_is_in_no_view(clicks: Clicks) -> None:
    late = clicks.spark.read.parquet(str(clicks.folder / "profiles/_late/*"))
    assert [row.visits for row in late.collect()] == [1000]
    # The guide's reason for a pattern: DuckDB reads all of a folder.
    pattern = clicks.guide["source"]("profiles", "computed_at").path
    assert (1000,) in duckdb.read_parquet(f"{clicks.folder}/profiles").project("visits").fetchall()
    assert (1000,) not in duckdb.read_parquet(pattern).project("visits").fetchall()


def test_the_default_store_fails_or_leaves_out_impressions(clicks: Clicks, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Invalid comparison between dtype=datetime64"):
        clicks.found(clicks.store("dask"), "profile")
    several, one = (Clicks(clicks.spark, tmp_path / name, clicks.defined) for name in ("several", "one"))
    several.served = one.served = clicks.served
    name = "spark.sql.parquet.outputTimestampType"
    clicks.spark.conf.set(name, "TIMESTAMP_MICROS")
    try:
        landed = clicks.spark.read.parquet(str(clicks.folder / "profiles"))
        landed.write.partitionBy("window_start").parquet(str(several.folder / "profiles"))
        in_one = landed.drop("window_start").coalesce(1)
        in_one.write.parquet(str(one.folder / "profiles/window_start=20260101T110000Z"))
    finally:
        clicks.spark.conf.unset(name)
    with pytest.raises(NotImplementedError, match="Divisions calculation failed"):
        several.found(several.store("dask"), "profile")
    assert one.found(one.store(), "profile") == IN_FEAST
    found = one.found(one.store("dask"), "profile")
    # Without those whose user has profiles, but none at their time, and one of the two of a user and a time.
    assert len({1, 2} & found.keys()) == 1
    left_out = {3, 5, 7, 10, 1, 2} - found.keys()
    assert len(left_out) == 5
    assert found == {id_: visits for id_, visits in IN_FEAST.items() if id_ not in left_out}


def test_the_online_store_has_the_newest_profiles_of_complete_windows(clicks: Clicks) -> None:
    store, serve = clicks.store(), clicks.guide["serve"]

    def online() -> list[int | None]:
        rows = [{"user_id": user} for user in (7, 8, 9, 10, 1)]
        visits: list[int | None] = store.get_online_features(["profile:visits"], rows).to_dict()["visits"]
        return visits

    assert serve(store, at("14:00:00")) == at("15:00:00")
    assert online() == [None, None, None, None, 7]
    assert serve(store) == at("15:00:00")
    # Its `ttl` isn't applied there: the profile of user 9 is of 11:00.
    assert online() == [6, 3, 4, None, 7]
    assert serve(store, at("15:00:00")) == at("15:00:00")
    # Nor does it keep the newer one: the guide calls `serve` in order of time.
    store.materialize(at("12:00:00"), at("13:00:00"), feature_views=["profile"])
    assert online()[0] == 2


@pytest.mark.parametrize(("seed", "zone"), [(1, "UTC"), (2, "America/New_York"), (3, "Asia/Kolkata")])
def test_random_rows_are_joined_alike(
    tailrace_spark: SparkSession,
    tmp_path: Path,
    defined: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    zone: str,
) -> None:
    rng = random.Random(seed)

    def clock() -> str:
        return f"{rng.randrange(12, 16)}:{rng.randrange(60):02}:{rng.choice((0, 30)):02}"

    profiles = {(rng.choice((None, *range(12))), clock()): rng.randrange(10**12) for _ in range(200)}
    clicks = Clicks(tailrace_spark, tmp_path, defined)
    clicks.served = [Impression(i, rng.choice((None, *range(14))), clock()) for i in range(300)]
    arrive(tmp_path / "logs/impressions", 0, impressions_table(clicks.served))
    rows = [Profile(user, computed_at, visits) for (user, computed_at), visits in profiles.items()]
    for hour in ("12", "13", "14", "15"):
        window = tmp_path / f"profiles/window_start=20260101T{hour}0000Z"
        arrive(window, 0, profiles_table([row for row in rows if row.computed_at.startswith(hour)]))
    joined = clicks.joined()
    assert sum(visits is not None for visits in joined.values()) > 100
    assert sum(visits is None for visits in joined.values()) > 20
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert clicks.found(clicks.store(), "profile") == joined
    finally:
        monkeypatch.undo()
        time.tzset()
