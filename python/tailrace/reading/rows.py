"""The rows of one window: the part of one worker, in batches."""

# The types of pyarrow are incomplete.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tailrace.reading import refusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tailrace.reading.folders import CompleteWindow, WindowFile, WindowFolder

# The condition's column in a scan; no column of Spark has this name.
_CHOSEN = "\x00chosen"
_SCANNED_ROWS = 8192
# Spark writes timestamps as INT96 by default. As nanoseconds, the default, the years before
# 1677 and after 2262 would wrap around silently.
_INT96 = ds.ParquetReadOptions(dictionary_columns=None, coerce_int96_timestamp_unit="us")
# Errors of Arrow where a condition doesn't fit a file.
_UNFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True)
class Selection:
    """The rows and columns that a reader wants.

    Attributes:
        columns: their names, in order; None: all.
        where: a condition; None: all rows.
        weights: a column that is emitted as double; None: no column is.
    """

    columns: Sequence[str] | None
    where: pc.Expression | None
    weights: str | None

    def condition(self) -> str | None:
        """`where` as text. Arrow leaves out the middle of long lists of values: then with a digest of all."""
        if self.where is None:
            return None
        text = str(self.where)
        if "..." not in text:
            return text
        (whole,) = cast("Any", self.where).__reduce__()[1]
        return f"{text} {hashlib.sha256(whole.to_pybytes()).hexdigest()}"

    def names(self, known: Sequence[str]) -> list[str]:
        """The emitted columns of files with these columns."""
        names = list(known if self.columns is None else self.columns)
        return [*names, self.weights] if self.weights is not None and self.weights not in names else names


@dataclass(frozen=True)
class Share:
    """One of several workers that read a window.

    Attributes:
        rank: 0 to `of` - 1.
        of: how many they are.
    """

    rank: int
    of: int

    def range(self, rows: int) -> tuple[int, int]:
        """Its part of a number of rows. The parts of all workers differ by at most one row."""
        return rows * self.rank // self.of, rows * (self.rank + 1) // self.of


class WindowRows:
    """The rows of a complete window, as its files are now.

    Args:
        folder: of the window.
        window: complete.
        files: with its rows. None: those that are there.
        late: takes late rows, too.

    Raises:
        TailraceWatermarkError: files are missing.
    """

    def __init__(
        self,
        folder: WindowFolder,
        window: CompleteWindow,
        *,
        files: Sequence[WindowFile] | None = None,
        late: bool = False,
    ) -> None:
        self.window = window
        self.files: list[WindowFile] = folder.files(window, late=late) if files is None else list(files)
        self._fragments = [_fragment(folder, file) for file in self.files]
        self._counts = [self._count(one) for one in self._fragments]
        # Late rows aren't in the report.
        counted = zip(self.files, self._counts, strict=True)
        if sum(rows for file, rows in counted if not file.late) != window.rows:
            raise refusals.changed(window.path)

    def _count(self, fragment: ds.ParquetFileFragment) -> int:
        try:
            return sum(group.num_rows for group in fragment.row_groups)
        except FileNotFoundError as error:
            raise refusals.changed(self.window.path) from error
        except (pa.ArrowInvalid, OSError) as error:
            raise refusals.unreadable(fragment.path, str(error)) from error

    def _all(self, schema: pa.Schema) -> list[str]:
        """The columns but the one of windows, which has one value here."""
        into = unquote(self.window.path.rpartition("/")[2].partition("=")[0])
        return [name for name in schema.names if name != into]

    def digest(self) -> str:
        """Changes if the files do."""
        listed = json.dumps([(file.inside, file.size) for file in self.files])
        return hashlib.sha256(listed.encode()).hexdigest()

    def schema(self, selection: Selection) -> pa.Schema | None:
        """The schema of the emitted batches, by the first file; None without files.

        Raises:
            TailraceWatermarkError: a column is unknown, or `weights` is no number.
        """
        if not self._fragments:
            return None
        whole = _schema(self._fragments[0])
        fields = []
        for name in selection.names(self._all(whole)):
            if name not in whole.names:
                argument = "weights" if name == selection.weights else "columns"
                raise refusals.column(argument, name, self.window.path, ", ".join(whole.names))
            kind = whole.field(name).type
            if name == selection.weights:
                _check_weights(name, kind, self.window)
                kind = pa.float64()
            fields.append(pa.field(name, kind))
        return pa.schema(fields)

    def batches(self, selection: Selection, schema: pa.Schema, share: Share) -> Iterator[pa.RecordBatch]:
        """A worker's rows, in an order that depends on the files alone.

        Raises:
            TailraceWatermarkError: a file has other columns or was deleted, or a weight isn't positive.
        """
        first, last = share.range(sum(self._counts))
        try:
            for file, fragment, count in zip(self.files, self._fragments, self._counts, strict=True):
                if first < count and last > 0:
                    self._check(file, fragment, selection, schema)
                    yield from self._of_file(fragment, selection, schema, max(first, 0), min(last, count))
                first, last = first - count, last - count
        except FileNotFoundError as error:
            raise refusals.changed(self.window.path) from error

    def _of_file(
        self, fragment: ds.ParquetFileFragment, selection: Selection, schema: pa.Schema, first: int, last: int
    ) -> Iterator[pa.RecordBatch]:
        whole = _schema(fragment)
        begins: dict[int, int] = {}
        at = 0
        for group in fragment.row_groups:
            begins[group.id] = at
            at += group.num_rows
        # A dict of expressions is no type of the stubs.
        columns: Any = {
            name: ds.field(name).cast(pa.float64(), safe=False)
            if name == selection.weights
            else ds.field(name)
            for name in schema.names
        }
        if selection.where is not None:
            columns[_CHOSEN] = selection.where
        for part in self._groups(fragment, selection.where, whole):
            (group,) = part.row_groups
            at = begins[group.id]
            if at >= last or at + group.num_rows <= first:
                continue
            scanner = part.scanner(schema=whole, columns=columns, batch_size=_SCANNED_ROWS, batch_readahead=1)
            for batch in _scanned(scanner, fragment.path, selection.where):
                begin, end = max(first - at, 0), min(last - at, batch.num_rows)
                at += batch.num_rows
                if begin < end:
                    yield from self._chosen(batch.slice(begin, end - begin), selection, schema)

    def _groups(
        self, fragment: ds.ParquetFileFragment, where: pc.Expression | None, schema: pa.Schema
    ) -> list[ds.ParquetFileFragment]:
        """The row groups of a file, without those whose statistics exclude the condition."""
        try:
            groups: Any = fragment.split_by_row_group(filter=where, schema=schema)
            return list(groups)
        except _UNFIT as error:
            if where is None:
                raise
            raise refusals.condition(str(where), fragment.path, str(error)) from error

    def _chosen(
        self, batch: pa.RecordBatch, selection: Selection, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        if selection.where is not None:
            chosen = batch.column(batch.num_columns - 1)
            if not pa.types.is_boolean(chosen.type):
                reason = f"its values have the type {chosen.type}"
                raise refusals.condition(str(selection.where), self.window.path, reason)
            batch = batch.filter(chosen).select(schema.names)
        if batch.num_rows == 0:
            return
        if selection.weights is not None:
            weights: Any = batch.column(selection.weights)
            good: Any = pc.and_(pc.is_finite(weights), pc.greater(weights, pa.scalar(0.0)))
            if pc.all(pc.fill_null(good, pa.scalar(False))).as_py() is not True:
                raise refusals.weight(selection.weights, self.window.path)
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _check(
        self, file: WindowFile, fragment: ds.ParquetFileFragment, selection: Selection, schema: pa.Schema
    ) -> None:
        """Refuses a file whose emitted columns differ from those of earlier files."""
        whole = _schema(fragment)
        here = {name: whole.field(name).type for name in whole.names}
        if selection.weights in here:
            _check_weights(selection.weights, here[selection.weights], self.window)
            here[selection.weights] = pa.float64()
        wanted = {name: schema.field(name).type for name in schema.names}
        names = dict.fromkeys([*wanted, *(self._all(whole) if selection.columns is None else ())])
        differing = [
            f"{name} ({wanted.get(name, 'missing')} before, {here.get(name, 'missing')} here)"
            for name in names
            if wanted.get(name) != here.get(name)
        ]
        if differing:
            raise refusals.schema(file.path, ", ".join(differing))


def _scanned(scanner: ds.Scanner, file: str, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
    """The batches of a scan.

    Raises:
        TailraceWatermarkError: the file is damaged, or the condition has no value for some row.
    """
    try:
        yield from scanner.to_batches()
    except FileNotFoundError:
        raise
    except _UNFIT as error:
        if where is None:
            raise refusals.unreadable(file, str(error)) from error
        raise refusals.condition(str(where), file, str(error)) from error
    except OSError as error:
        raise refusals.unreadable(file, str(error)) from error


def _fragment(folder: WindowFolder, file: WindowFile) -> ds.ParquetFileFragment:
    names = [unquote(part.partition("=")[0]) for part in file.inside.split("/")[:-1]]
    # All of them are text: an inferred type would depend on the values that a window has.
    directories = ds.HivePartitioning(pa.schema([(name, pa.string()) for name in names]))
    values = directories.parse(file.inside)
    made: Any = ds.ParquetFileFormat(read_options=_INT96).make_fragment(
        file.path, folder.filesystem, partition_expression=values
    )
    return cast("ds.ParquetFileFragment", made)


def _schema(fragment: ds.ParquetFileFragment) -> pa.Schema:
    """The columns of a file, and those of its directories."""
    values = ds.get_partition_keys(fragment.partition_expression)
    columns = [pa.field(column.name, _nullable(column.type)) for column in fragment.physical_schema]
    return pa.schema([*columns, *(pa.field(name, pa.string()) for name in values)])


def _nullable(kind: pa.DataType) -> pa.DataType:
    """A type with nulls allowed in it, at any depth.

    Spark writes `not null` inside of a column where its plan has no nulls, and that may differ between two
    starts of a query.
    """
    if isinstance(kind, pa.StructType):
        return pa.struct(
            [pa.field(kind.field(i).name, _nullable(kind.field(i).type)) for i in range(kind.num_fields)]
        )
    if isinstance(kind, pa.MapType):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if isinstance(kind, pa.ListType):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    return kind


def _check_weights(name: str, kind: pa.DataType, window: CompleteWindow) -> None:
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise refusals.weights_type(name, window.path, str(kind))
