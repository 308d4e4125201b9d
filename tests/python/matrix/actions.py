"""What is done to a query between its two phases, and what has to come out then."""

from __future__ import annotations

import datetime as dt
import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tailrace
from matrix import pins
from matrix.rows import ERASED, FIRST, SECOND, Variant
from matrix.runs import differences
from matrix.shape import Equal
from matrix.waits import WATERMARK, WINDOW, Waits, further_parts, is_needed
from streams import second
from tailrace._bridge import calls
from tailrace.commands import waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from matrix.runs import Baselines, Output, Run
    from matrix.shape import Entry, Outcome

_MADE = "made"
_RIGHT = "to_json(right) AS text"
_RIGHT_ID = re.compile(r'"r_id":(\d+)')


@dataclass(frozen=True)
class Cell:
    """An entry and an action, with what a test has for them, and the outcomes of all actions on the entry."""

    entry: Entry
    action: str
    baselines: Baselines
    directory: Path
    seed: int
    outcomes: Mapping[str, Outcome]

    @property
    def spark(self) -> SparkSession:
        return self.baselines.spark

    @property
    def random(self) -> random.Random:
        return random.Random(f"{self.seed} {self.entry.name} {self.action}")

    def run(self, **options: Any) -> Run:  # noqa: ANN401
        return self.baselines.new(self.directory / "run", self.entry, **options)


class CellError(AssertionError):
    """A cell that isn't as it has to be."""


def _check(expected: list[str], found: list[str], of: str) -> None:
    told = differences(expected, found)
    if told:
        raise CellError(f"{of}:\n{told}")


def pinned(cell: Cell) -> None:
    """Its rows, plan, files and progress are those that are pinned."""
    found = pins.EntryPins(cell.spark, cell.directory / "run", cell.entry).differences(cell.entry)
    if found:
        raise CellError("\n".join([*found, "If that is meant: .venv/bin/python tests/python/pinning.py"]))


def kept(cell: Cell) -> None:
    """A checkpoint that an earlier version has left goes on with the rows that are pinned."""
    rows = pins.go_on(cell.spark, cell.directory / "run", cell.entry)
    wanted = pins.phases_of(cell.entry)["rest"]
    if pins.digests(rows) != wanted:
        others = [row for row in rows if pins.digest(row) not in wanted]
        raise CellError("\n".join([f"{len(rows)} rows, {len(wanted)} are pinned; not pinned:", *others[:8]]))


def restart(cell: Cell) -> None:
    """It is stopped and started before some of its micro-batches."""
    chosen = cell.random
    before = {number for number in (*FIRST, *SECOND) if chosen.random() < 0.4} | {len(FIRST)}
    with cell.run() as run:
        run.start()
        for number in (*FIRST, *SECOND):
            if number in before and number:
                run.stop()
                run.start()
            run.until(number + 1)
        run.rest()
        _check(
            cell.baselines.of(cell.entry).all, run.taken(), f"restarted before micro-batches {sorted(before)}"
        )
        _check([], run.query.changes(), "a micro-batch that ran again")


def crash(cell: Cell) -> None:
    """A step of its checkpoint fails, and all later ones, as if the process had died."""
    steps = cell.baselines.of(cell.entry).steps
    step = cell.random.randrange(1, len(steps) + 1)
    faults = calls.hold("checkpoint_faults", cell.spark)
    failed = False
    with cell.run(faulty=True) as run:
        calls.invoke(faults, "begin", step)
        try:
            run.start()
            run.rest()
            # A step that a background task does may come behind the last micro-batch.
            reached = list(calls.invoke(faults, "end"))
        except calls.spark_errors(cell.spark):
            reached, failed = list(calls.invoke(faults, "end")), True
            if len(reached) < step:
                raise
        finally:
            calls.invoke(faults, "end")
        if failed:
            run.stop()
            run.start()
            run.test.tick()
            run.rest()
        of = f"after a crash at step {step} of {len(steps)}, {reached[-1] if reached else 'none'}"
        _check(cell.baselines.of(cell.entry).all, run.taken(), of)
        _check([], run.query.changes(), of)


class Changed:
    """An action between the two phases: `change` is called while the query is stopped."""

    variant: Variant | None = None

    def __init__(self, change: Callable[[Cell, Run], None]) -> None:
        self._change = change

    def __call__(self, cell: Cell, then: Changed | None = None) -> None:
        """Does it. `then` comes a micro-batch later, and changes no row."""
        with cell.run(variant=self.variant_of(cell)) as run:
            run.start()
            run.first()
            _check(self.before(cell).first, run.taken(), "before the action")
            self.change(cell, run)
            if then is not None:
                run.start()
                run.until(run.fed + 1)
                then.change(cell, run)
            run.start()
            run.rest()
            self.compare(cell, run)

    def change(self, cell: Cell, run: Run) -> None:
        """Stops the query, and does it."""
        run.stop()
        with run.settings():
            self._change(cell, run)

    def refused(self, cell: Cell, condition: str) -> None:
        """The condition refuses it before a file has changed, and the query goes on without it."""
        with cell.run(variant=self.variant_of(cell)) as run:
            run.start()
            run.first()
            _check(self.before(cell).first, run.taken(), "before the action")
            run.stop()
            known = run.files()
            entry, shape = run.entry, run.shape
            try:
                with run.settings():
                    self._change(cell, run)
                run.start()
                run.until(run.fed + 1)
            except Exception as error:
                found = condition_of(error)
                if found != condition:
                    raise CellError(f"refused by {found}, and not by {condition}: {error}") from error
            else:
                raise CellError(f"not refused by {condition}")
            run.stop()
            changed = {
                name for name, digest in (run.files().items() ^ known.items()) if not _is_of_spark(name)
            }
            if changed:
                raise CellError(f"refused by {condition}, and these files have changed: {sorted(changed)}")
            if any(run.directory.glob(f"{_MADE}-*")):
                raise CellError(f"refused by {condition}, and the new checkpoint is there")
            run.entry, run.shape = entry, shape
            run.start()
            run.test.tick()
            run.rest()
            _check(self.before(cell).rest, run.taken(), f"after the refusal {condition}")

    def variant_of(self, cell: Cell) -> Variant | None:  # noqa: ARG002
        return self.variant

    def before(self, cell: Cell) -> Output:
        """The query as it is without the action."""
        return cell.baselines.of(cell.entry, variant=self.variant_of(cell))

    def compare(self, cell: Cell, run: Run) -> None:
        _check(self.before(cell).rest, run.taken(), f"after {cell.action}")


# A micro-batch begins with what Spark writes of it: its offsets, and the files of a source. The rest is ours.
_OF_SPARK = re.compile(r"^(offsets|sources)/")


def _is_of_spark(name: str) -> bool:
    return _OF_SPARK.match(name) is not None


def condition_of(error: BaseException) -> str | None:
    """The condition of an error of ours or of Spark's."""
    if isinstance(error, tailrace.TailraceError):
        return error.condition
    get = getattr(error, "getCondition", None)
    return None if get is None else get()


class _Erased(Changed):
    def compare(self, cell: Cell, run: Run) -> None:
        without = cell.baselines.of(cell.entry, variant=Variant(without_key=True))
        _check(without.rest, run.taken(), f"after key {ERASED} was erased")


class _Columns(Changed):
    """A query with other columns: rows of before have null in a further one."""

    def compare(self, cell: Cell, run: Run) -> None:
        variant = Variant(without_extra=True)
        wanted = cell.baselines.of(cell.entry, shape=run.shape, variant=variant)
        _check(wanted.rest, run.taken(), f"with columns {run.shape}")


class _Longer(Changed):
    """A longer window: what has come out keeps the window that it had."""

    variant = Variant(without_late=True)

    def compare(self, cell: Cell, run: Run) -> None:
        longer = cell.entry.with_options(cell.entry.longer)
        gone = {(row.get("l_id"), row.get("r_id")) for row in self.before(cell).first_rows}
        left_gone = {one[0] for one in gone if one[1] is None}
        wanted = cell.baselines.of(longer, variant=self.variant)

        is_eager = bool(cell.entry.settings)

        def is_held_back(row: Mapping[str, Any]) -> bool:
            """With eager matching it keeps its window, too."""
            return is_eager and second(row["l_ts"]) + WINDOW <= WATERMARK

        def comes(row: Mapping[str, Any]) -> bool:
            one = (row.get("l_id"), row.get("r_id"))
            if one[0] is None or one in gone or one[0] in left_gone or is_held_back(row):
                return False
            if one[1] is None:
                return True
            # Of pairs: a left row whose window the watermark had passed keeps what it had.
            return second(row["l_ts"]) + WINDOW > WATERMARK

        expected = _by_row(filter(comes, wanted.rest_rows))
        seen = _by_row(self.before(cell).first_rows)
        judged = (row for row in run.raw() if row.get("l_id") is not None and not is_held_back(row))
        found = _by_row(judged) - seen
        _check(sorted(expected.elements()), sorted(found.elements()), "with a longer window")


def _by_row(rows: Any) -> Counter[str]:  # noqa: ANN401 - an iterable of rows
    return Counter(repr(sorted(row.items(), key=lambda item: item[0])) for row in rows)


def _rescale(cell: Cell, run: Run) -> None:
    numbers = [1, 3] if run.fed == len(FIRST) else [4, 5]
    tailrace.rescale(cell.spark, run.checkpoint, cell.random.choice(numbers))


def _erase(cell: Cell, run: Run) -> None:
    tailrace.erase(cell.spark, run.checkpoint, f"key = {ERASED}")


def _exchanged(of: Callable[[Cell, Run], Any]) -> Callable[[Cell, Run], None]:
    def exchange(cell: Cell, run: Run) -> None:
        export, made = run.directory / f"export-{run.fed}", run.directory / f"{_MADE}-{run.fed}"
        tailrace.export_state(cell.spark, run.checkpoint, export)
        tailrace.import_state(of(cell, run), made, export=export)
        run.checkpoint.rename(run.directory / "former")
        made.rename(run.checkpoint)
        shutil.rmtree(run.directory / "former")

    return exchange


def _shaped(shape: str) -> Callable[[Cell, Run], None]:
    def change(_: Cell, run: Run) -> None:
        run.shape = shape

    return change


def _longer(cell: Cell, run: Run) -> None:
    run.entry = cell.entry.with_options(cell.entry.longer)


def twice(cell: Cell) -> None:
    """An action, a micro-batch, and another action that changes no row: what comes out is the first one's."""
    draw = cell.random
    known = {name: act for name, act in ACTIONS.items() if isinstance(act, Changed)}
    able = [name for name in known if isinstance(cell.outcomes.get(name), Equal)]
    first, then = draw.choice(able), draw.choice([name for name in able if name in _SAME_ROWS])
    try:
        known[first](cell, known[then])
    except Exception as error:
        error.add_note(f"{first}, then {then}")
        raise


def readers(cell: Cell) -> None:
    """The formats `tailrace-state` and `statestore` show the rows that wait, as a count by hand has them."""
    with cell.run() as run:
        run.start()
        run.first()
        numbers_of = run.query.waiting()  # type: ignore[attr-defined]  # of the test kit's query
        run.stop()
        path = str(run.checkpoint)
        state = cell.spark.read.format("tailrace-state").option("operator", 0).load(path)
        left = [row["l_id"] for row in state.where("side = 'left'").select("left.l_id").collect()]
        texts = [row["text"] for row in state.where("side = 'right'").selectExpr(_RIGHT).collect()]
        # A right row of examples has the events of labels as columns.
        right = [int(number) for text in texts for number in sorted(set(_RIGHT_ID.findall(text)))]
        waits = Waits(cell.entry, cell.baselines)
        _check_ids("left", left, waits.left_least, waits.left_most)
        _check_ids("right", right, waits.right_least, waits.right_most)
        numbers = cell.spark.read.format("statestore").option("operatorId", 0).load(path).count()
        listed = cell.spark.read.format("state-metadata").load(path).where("operatorId = 0").collect()
        name = listed[0]["operatorName"]
        if numbers != numbers_of[name]:
            raise CellError(
                f"statestore has {numbers} entries, and the progress has {numbers_of[name]} of {name}"
            )


def why(cell: Cell) -> None:
    """`tailrace why` counts the rows that wait, and finds those of a key."""
    with cell.run() as run:
        run.start()
        run.first()
        run.stop()
        state = cell.spark.read.format("tailrace-state").option("operator", 0).load(str(run.checkpoint))
        rows = state.selectExpr("side", "key.key AS key").collect()
        sides = [row["side"] for row in rows]
        columns = state.select("key.*").columns
        asked = {column: ERASED if column == "key" else 1 for column in columns}
        key = ",".join(f"{column}={value}" for column, value in asked.items())
        found = waiting.explain(str(run.checkpoint), key, 1000)["operators"][0]
        # A right row of a hot key is in each of its parts, and shown once.
        copies = sum(further_parts(cell.entry).get(row["key"], 0) for row in rows if row["side"] == "right")
        wanted, told = [sides.count("left"), sides.count("right") + copies], found["text"][0]
        numbers = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:left|right) row", told)]
        if numbers != wanted:
            raise CellError(f"the state has {wanted} left and right rows, and why says: {told}")
        mine = state.where(" AND ".join(f"key.{column} = {value}" for column, value in asked.items()))
        stored = [
            (row["side"], row["at"]) for row in mine.selectExpr("side", "unix_seconds(time) AS at").collect()
        ]
        shown = [
            (row["side"], int(dt.datetime.fromisoformat(row["time"]).timestamp())) for row in found["rows"]
        ]
        hidden, others = Counter(stored) - Counter(shown), Counter(shown) - Counter(stored)
        needed = [one for one in hidden if is_needed(cell.entry, one, stored)]
        if found["more"] or others or needed:
            raise CellError(f"of {key} why hides {needed} and shows {others}; the state has {sorted(stored)}")


def _check_ids(side: str, found: list[int], least: set[int], most: set[int]) -> None:
    if len(found) != len(set(found)):
        raise CellError(f"{side} rows are there twice: {sorted(found)}")
    missing, many = least - set(found), set(found) - most
    if missing or many:
        raise CellError(f"{side} rows: missing {sorted(missing)}, too many {sorted(many)}")


_SAME_ROWS = frozenset({"rescale", "import_session", "import_query"})

ACTIONS: dict[str, Callable[[Cell], None]] = {
    "restart": restart,
    "crash": crash,
    "rescale": Changed(_rescale),
    "erase": _Erased(_erase),
    "import_session": Changed(_exchanged(lambda cell, _: cell.spark)),
    "import_query": Changed(_exchanged(lambda _, run: run.definition())),
    "added": _Columns(_shaped("added")),
    "dropped": _Columns(_shaped("dropped")),
    "widened": _Columns(_shaped("widened")),
    "longer": _Longer(_longer),
    "twice": twice,
    "readers": readers,
    "why": why,
    "pinned": pinned,
    "kept": kept,
}
