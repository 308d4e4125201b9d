"""What another value of an option does when a query resumes from its checkpoint.

There is a restart for every option at least. The table in `docs/explanation/guarantees.md` has the same
options in the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tailrace
from matrix.entries import AT_SERVER, ENTRIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matrix.shape import Entry

INCOMPATIBLE = "TAILRACE_CHECKPOINT_INCOMPATIBLE"
PROGRESS_MISSING = "TAILRACE_WATERMARK_PROGRESS_MISSING"
FOLDER = "TAILRACE_WINDOWS_FOLDER"
RECURSION = "TAILRACE_RECURSION_CHECKPOINT"
_ENTRIES = {entry.name: entry for entry in (*ENTRIES, *AT_SERVER)}


@dataclass(frozen=True)
class Restart:
    """A query that is stopped and resumes with other options.

    Attributes:
        entry: the name of the entry that it starts as.
        call: the number of the call whose options change.
        options: the other values.
        refused: the condition by which the restart is refused; None if it is accepted.
        compares: whether each row that comes out then has to be one of the query with the former options or
            of the one with the new options.
        told_as: the option by which a refusal tells the change; None if that is one of the options.
    """

    entry: str
    call: int
    options: Mapping[str, Any] = field(hash=False)
    refused: str | None = None
    compares: bool = True
    told_as: str | None = None

    @property
    def name(self) -> str:
        told = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.entry}/{told}"

    @property
    def operator(self) -> str:
        return _ENTRIES[self.entry].calls[self.call].operator

    def before(self) -> Entry:
        return _ENTRIES[self.entry]

    def after(self) -> Entry:
        return self.before().with_options({self.call: self.options})


def _accepted(entry: str, /, call: int = 0, *, compares: bool = True, **options: Any) -> Restart:  # noqa: ANN401
    return Restart(entry, call, options, compares=compares)


def _refused(
    entry: str,
    /,
    call: int = 0,
    *,
    condition: str = INCOMPATIBLE,
    told_as: str | None = None,
    **options: Any,  # noqa: ANN401
) -> Restart:
    return Restart(entry, call, options, condition, told_as=told_as)


_JOIN = (
    _accepted("join-left", after="60 seconds"),
    _refused("join-left", after="20 seconds"),
    _refused("join-horizons", after="60 seconds"),
    _refused("join-left", before="5 seconds"),
    _refused("join-before", before="0 seconds"),
    _refused("join-left", how="inner"),
    _accepted("join-left", into="clicks"),
    _accepted("join-left", match="first"),
    _accepted("join-last", match="all"),
    _accepted("join-left", max_matches=1),
    _accepted("join-left", on_late="mark"),
    _accepted("join-mark", on_late="drop"),
    # Late labels of before the restart are in groups, and later ones aren't: such a row is of neither query.
    _accepted("join-left", late_labels=False, compares=False),
    _accepted("join-left", late_impressions=False),
    _refused("join-inner_before", late_labels=False),
    _refused("join-left", release_every="20 seconds"),
    _refused("join-steps", release_every="batch"),
    # The checkpoint decides.
    _accepted("join-steps", release_every=None),
    _accepted("join-left", idle_timeout="1 hour"),
    _accepted("join-closing", idle_timeout=None),
    _refused("join-left", early="10 seconds"),
    _refused("join-early", early=None),
    _refused("join-left", horizons=["5 seconds"]),
    _refused("join-horizons", horizons=["5 seconds"]),
    _accepted("join-horizons", emit="changes"),
    _refused("join-horizons", emit="defer", told_as="horizons"),
    _refused("join-horizons_defer", emit="all", told_as="horizons"),
    _refused("join-first", release="decided"),
    _refused("join-decided", release="closed"),
    _refused("join-inner", one_to_one=True),
    _refused("join-inner_pairs", one_to_one=False),
    _accepted("join-left", amend_for="20 seconds"),
    _accepted("join-amended", amend_for=None),
    _refused("join-left", orphans=True),
    _refused("join-orphans", orphans=False),
    _accepted("join-left", on_stall="fail", stall_after="1 hour"),
    _accepted("join-left", on_stall="exclude", stall_after="1 hour"),
    _accepted("join-left", on_left_stall="exclude", stall_after="1 hour"),
    _accepted("join-excluding", on_stall="pause"),
    _accepted("join-stalling", stall_after="2 hours"),
    _refused("join-left", salted_keys=[1], salt_buckets=2),
    _refused("join-hot", salted_keys=[2], salt_buckets=2),
    _refused("join-hot", salt_buckets=3, told_as="salted_keys"),
)

_AS_OF = (
    _accepted("as_of-plain", into="profile"),
    _refused("as_of-plain", max_age="20 seconds"),
    _refused("as_of-aged", max_age="60 seconds"),
    _refused("as_of-plain", delay="5 seconds"),
    _accepted("as_of-plain", idle_timeout="1 hour"),
    _accepted("as_of-plain", on_late="mark"),
    # Only the first micro-batch of a checkpoint reads it.
    _accepted("as_of-plain", initial=True),
    _accepted("as_of-initial", initial=None),
)

_SYNC = (
    _refused("sync_join-plain", window="60 seconds"),
    _accepted("sync_join-plain", sync_delay="8 seconds"),
    _refused("sync_join-plain", left_partition="l_n"),
    _refused("sync_join-plain", right_partition="r_n"),
    _accepted("sync_join-plain", on_stall="exclude", stall_after="1 hour"),
    _accepted("sync_join-plain", on_left_stall="fail", stall_after="1 hour"),
    _accepted("sync_join-failing", stall_after="2 hours"),
    _accepted("sync_join-plain", future_limit="1 hour"),
    _accepted("sync_join-future_clamp", on_future="fail"),
    _accepted("sync_join-plain", on_duplicate="drop"),
    _accepted("sync_join-plain", on_unmatched_right="emit"),
    _accepted("sync_join-plain", one_to_one=True),
    _accepted("sync_join-plain", max_buffered=1000),
    _accepted("sync_join-plain", suffix="_r"),
    _accepted("sync_join-plain", idle_timeout="1 hour"),
    _accepted("sync_join-closing", idle_timeout=None),
    _refused("sync_join-plain", condition="TAILRACE_SYNC_NAME_CHANGED", name="bids"),
)

_EXAMPLES = (
    _accepted("examples-two_labels", on_late="mark"),
    _refused("examples-two_labels", release_every="20 seconds"),
    _accepted("examples-capped", release_every=None),
    _accepted("examples-two_labels", idle_timeout="1 hour"),
    _accepted("examples-two_labels", amend_for="20 seconds"),
    _refused("examples-two_labels", orphans=True),
    _accepted("examples-two_labels", name="others"),
    # Events from before were judged by the former condition, and late ones by the former window.
    _accepted("examples-two_labels", 1, where="r_n % 3 = 0", compares=False),
    _accepted("examples-two_labels", 1, after="60 seconds", compares=False),
    _accepted("examples-two_labels", 1, after="25 seconds", compares=False),
    _refused("examples-two_labels", 1, before="5 seconds"),
    _accepted("examples-two_labels", 1, match="first"),
    _accepted("examples-two_labels", 1, max_matches=1),
    _refused("examples-two_labels", 1, attribution=tailrace.linear()),
    _refused("examples-linear", 1, attribution=tailrace.last_touch()),
    _accepted("examples-one_label", 1, since="2026-01-01 12:00:20"),
    _accepted("examples-one_label", 1, on_stall="fail", stall_after="1 hour"),
    _accepted("examples-one_label", 1, on_stall="exclude", stall_after="1 hour"),
    _accepted("examples-two_labels", on_stall="exclude", stall_after="1 hour"),
    _accepted("examples-two_labels", stall_after="1 hour"),
    _accepted("examples-features", 2, on_stall="fail", stall_after="1 hour"),
    _accepted("examples-features_failing", 2, stall_after="2 hours"),
    _accepted("examples-first", 1, stall_after="2 hours"),
    _refused("examples-features_aged", 2, max_age="60 seconds"),
    _refused("examples-features_aged", 2, delay="6 seconds"),
    _refused("examples-horizons", 3, horizons=["5 seconds"]),
    _accepted("examples-horizons", 3, emit="changes"),
    _refused("examples-horizons", 3, emit="defer", told_as="horizons"),
    _refused("examples-sample", 2, seed=8),
    _accepted("examples-sample", 2, weight="w"),
    _accepted("examples-sample_ratio", 2, ratio={"click": 2000}),
    _accepted("examples-sample_ratio", 2, over="1 minute"),
    _accepted("examples-sample_ratio", 2, start=0.5),
)

_WATERMARK = (
    _accepted("watermark-plain", completeness="50%", compares=False),
    _accepted("watermark-plain", hosts=["a", "b"], compares=False),
    _accepted("watermark-plain", idle_after="1 hour", compares=False),
    _accepted("watermark-plain", future_limit="1 hour"),
    _accepted("watermark-future_clamp", on_future="fail"),
    _accepted("watermark-plain", delay="5 seconds", compares=False),
    _refused("watermark-plain", condition=PROGRESS_MISSING, name="others"),
    _accepted("server-watermark", app="others", compares=False),
    _accepted("server-watermark", operator="others", compares=False),
    _accepted("server-watermark", logs=None, compares=False),
    _accepted("watermark-stamped_roster", completeness="50%", compares=False),
    _accepted("watermark-stamped_roster", partitions=None, compares=False),
    _accepted("watermark-stamped_roster", future_limit="2 hours", compares=False),
    _accepted("watermark-stamped_roster", on_future="clamp", compares=False),
    _accepted("watermark-stamped_roster", delay="8 seconds", compares=False),
    _refused("watermark-stamped_roster", condition=PROGRESS_MISSING, name="others"),
)

_WINDOWS = (
    _refused("windows-plain", 1, condition=FOLDER, window="20 seconds"),
    _refused("windows-plain", 1, condition=FOLDER, offset="5 seconds"),
    _refused("windows-plain", 1, condition=FOLDER, into="slot"),
    _accepted("windows-plain", 1, missing=3, compares=False),
    _accepted("windows-plain", 1, target_file_size="1 MB", compares=False),
    _accepted("windows-plain", 1, cluster_by=["key"], compares=False),
    _accepted("windows-plain", 1, idle_timeout="1 hour", compares=False),
    _accepted("server-windows", 1, operator="others", compares=False),
    _accepted("server-windows", 1, upstreams=None, compares=False),
)

_REPLAYS = (
    _accepted("replays-drop", 1, disorder=4, compares=False),
    _accepted("replays-drop", 1, on_replay="mark"),
    _accepted("replays-drop", 1, forget_after="1 hour", event_time="at"),
    _accepted("replays-forgetting", 1, forget_after="2 hours"),
    _refused("replays-drop", 1, condition="TAILRACE_REPLAY_MARKS_MISSING", name="others"),
)

_RECURSION = (
    _accepted("recursion-feedback_depth", max_depth=1000),
    _accepted("recursion-feedback_depth", max_rows=100_000),
    _accepted("recursion-feedback_depth", max_depth=1000, on_limit="drop"),
    _accepted("recursion-feedback", depth_column="hop"),
    _accepted("recursion-feedback", path_columns=["l_n"]),
    _accepted("recursion-feedback", path_columns=["l_n"], on_cycle="drop"),
    _refused("recursion-feedback", condition=RECURSION, name="others"),
    _refused("recursion-feedback", condition=RECURSION, mode="auto"),
)

RESTARTS: tuple[Restart, ...] = (
    *(*_JOIN, *_AS_OF, *_SYNC, *_EXAMPLES, *_WATERMARK, *_WINDOWS, *_REPLAYS, *_RECURSION),
)
