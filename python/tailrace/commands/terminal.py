"""The output of commands: by rich on a terminal, if the extra `rich` is installed; otherwise as plain text.

`is_rich` alone decides it. Pipes, files and scripts get the plain text, the same with and without rich.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from tailrace.server.names import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from rich.console import RenderableType

# In columns: the width that a table would take is measured as if the terminal had this many.
_WIDEST = 100_000

# Control characters but the line break, and what reorders a line.
_UNPRINTABLE = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f{DIRECTIONS}]")
_TWO_DIGITS = 0x100

# The amount that is done, and the total.
Reached: TypeAlias = "Callable[[int, int], None]"


def printable(text: str) -> str:
    """A text of which no character moves the cursor, changes colours or reorders the line: these are escaped.

    Names come from queries, hosts and rows. Line breaks stay.
    """
    return _UNPRINTABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < _TWO_DIGITS else f"\\u{code:04x}"


def is_rich() -> bool:
    """True if tables and progress bars are drawn by rich."""
    return sys.stdout.isatty() and find_spec("rich") is not None


@dataclass(frozen=True)
class Table:
    """Aligned columns under their names.

    Attributes:
        head: the columns' names.
        rows: a text for each column.
        right: the numbers of the columns that are aligned to the right, from 0.
        indent: of the plain text, in characters.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    indent: int = 0

    def cells(self) -> list[list[str]]:
        """The texts of the rows, each in one line."""
        return [[printable(cell).replace("\n", "\\n") for cell in row] for row in self.rows]

    def lines(self) -> Iterator[str]:
        """The plain text."""
        rows = self.cells()
        widths = [max(map(len, column)) for column in zip(self.head, *rows, strict=True)]
        for row in (self.head, *rows):
            cells = (
                cell.rjust(width) if number in self.right else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            yield f"{' ' * self.indent}{'  '.join(cells)}".rstrip()

    def drawn(self) -> RenderableType:
        """For rich."""
        from rich import box, table
        from rich.text import Text

        drawn = table.Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for number, name in enumerate(self.head):
            drawn.add_column(Text(name), justify="right" if number in self.right else "left", no_wrap=True)
        for row in self.cells():
            drawn.add_row(*map(Text, row))
        return drawn


@dataclass(frozen=True)
class Pairs:
    """Names with their descriptions.

    Attributes:
        rows: name and text.
        width: of the names in the plain text, with the space after them, in characters.
    """

    rows: Sequence[tuple[str, str]]
    width: int

    def lines(self) -> Iterator[str]:
        """The plain text."""
        return (printable(f"{name:<{self.width}}{text}").rstrip() for name, text in self.rows)

    def drawn(self) -> RenderableType:
        """For rich: longer text continues below itself, and not below the name."""
        from rich import table
        from rich.text import Text

        drawn = table.Table.grid(padding=(0, 2, 0, 0))
        drawn.add_column(style="bold", no_wrap=True)
        drawn.add_column(overflow="fold")
        for name, text in self.rows:
            drawn.add_row(Text(printable(name)), Text(printable(text)))
        return drawn


def show_parts(parts: Iterable[str | Table | Pairs]) -> None:
    """Prints lines and tables on the standard output.

    Args:
        parts: from top to bottom.
    """
    if not is_rich():
        plain = ([printable(part)] if isinstance(part, str) else part.lines() for part in parts)
        print("\n".join(line for lines in plain for line in lines), flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for part in parts:
        if isinstance(part, str):
            console.print(Text(printable(part)), soft_wrap=True)
        else:
            drawn = part.drawn()
            # Broken names and times are worse than a line that continues below.
            wide = console.options.update(max_width=_WIDEST)
            fits = isinstance(part, Pairs) or console.measure(drawn, options=wide).maximum <= console.width
            console.print(drawn if fits else Text("\n".join(part.lines())), soft_wrap=not fits)


def show_report(report: object, parts: Callable[[], Iterable[str | Table | Pairs]], *, as_json: bool) -> None:
    """Prints a report on the standard output.

    Args:
        report: a value that JSON can hold.
        parts: makes the lines and tables for people.
        as_json: for machines: the report as JSON.
    """
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show_parts(parts())


@contextmanager
def bar(what: str) -> Generator[Reached]:
    """A progress bar while the block runs, below the output printed meanwhile. Without rich there is none.

    Args:
        what: is being done.

    Yields:
        A function that takes the finished amount and the total, from any thread. Until its first call the bar
        only moves to and fro.
    """
    if not is_rich():
        yield lambda _done, _all: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, all_: progress.update(task, completed=done, total=all_)
