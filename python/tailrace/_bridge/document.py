"""A call as both bridges carry it: its name, and its arguments as one JSON object.

    tailrace.join(left, right, on="user", after=timedelta(minutes=30), ...)
    ->  {"left": {"frame": 0}, "right": {"frame": 1}, "on": [["user", "user"]], "after": 1800000000, ...}

DataFrames and Columns stand beside the object. `CallDocument.scala` reads it.
"""

# Elements of lists and objects have no known type.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Call:
    """A call of `io.tailrace.api.PythonApi`.

    Attributes:
        name: as `PythonApi` has it: that of the public function, "filter_replays".
        json: the arguments.
        frames: the DataFrames among them, by their numbers there.
        columns: the Columns, likewise.
    """

    name: str
    json: str
    frames: tuple[DataFrame, ...]
    columns: tuple[Column, ...]


def written(name: str, arguments: Mapping[str, object]) -> Call:
    """A call with its arguments, of which those that are None are left out.

    A duration is a string as its user wrote it, or a number of microseconds.

    Raises:
        TypeError: an argument has no JSON.
    """
    frames: list[DataFrame] = []
    columns: list[Column] = []

    def plain(value: object) -> object:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case timedelta():
                return value // timedelta(microseconds=1)
            case DataFrame():
                # One that is given twice is one: labels of one stream read it once.
                known = [number for number, frame in enumerate(frames) if frame is value]
                frames.extend([] if known else [value])
                return {"frame": known[0] if known else len(frames) - 1}
            case Column():
                columns.append(value)
                return {"column": len(columns) - 1}
            case Mapping():
                return {key: plain(one) for key, one in value.items() if one is not None}
            case Sequence() if not isinstance(value, bytes | bytearray):
                return [plain(one) for one in value]
            case _:
                raise TypeError(f"no argument of a call: {type(value).__name__}")

    text = json.dumps(plain(arguments), allow_nan=False)
    return Call(name, text, tuple(frames), tuple(columns))
