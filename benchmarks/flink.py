"""Flink's programs in benchmarks/peers: how they are built, started and given their data."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROJECT = Path(__file__).resolve().with_name("peers") / "flink"
_OPENS = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "lang", "time", "nio")]
# peers/common/peers/Flat.java reads it.
_RECORD = np.dtype([("side", "u1"), ("key", "<i8"), ("ts", "<i8"), ("value", "V100")])


def version() -> str:
    """Flink's version, of the Maven project."""
    pom = (_PROJECT / "pom.xml").read_text(encoding="utf-8")
    return pom.partition("<flink.version>")[2].partition("<")[0]


def build() -> None:
    """Builds the programs with Maven, if a source is newer than the classes."""
    stamp = _PROJECT / "target" / "built"
    sources = [_PROJECT / "pom.xml", *_PROJECT.parent.rglob("*.java")]
    if stamp.is_file() and all(source.stat().st_mtime <= stamp.stat().st_mtime for source in sources):
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("There is no mvn on the PATH: install Maven to build Flink's programs.")
    subprocess.run([maven, "-q", "-B", "package"], cwd=_PROJECT, check=True)
    stamp.touch()


def command(program: str, arguments: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """The command line of a program.

    Args:
        program: a class of the package `peers.flink`.
        arguments: the program's own.
        options: of the JVM.
    """
    classes = f"{_PROJECT}/target/classes:{_PROJECT}/target/lib/*"
    return ["java", "-Xmx4g", *options, *_OPENS, "-cp", classes, f"peers.flink.{program}", *arguments]


def write_flat(data: Path, flat: Path) -> None:
    """Writes a workload as one file in the order of arrival: left slice 0, right slice 0, left slice 1...

    A record has 117 bytes, little endian: a byte for the side (0 left, 1 right), key, time in ms, and a value
    of 100 bytes.

    Args:
        data: a directory with the Parquet files `left/*` and `right/*`, one per slice.
        flat: the file to write.
    """
    sides = [sorted((data / side).glob("*.parquet")) for side in ("left", "right")]
    with flat.open("wb") as out:
        for slices in zip(*sides, strict=True):
            for side, file in enumerate(slices):
                rows = pq.read_table(file).combine_chunks()
                records = np.zeros(len(rows), _RECORD)
                if len(rows):
                    records["side"] = side
                    records["key"] = rows["key"].to_numpy()
                    records["ts"] = rows["ts"].cast(pa.int64()).to_numpy() // 1000
                    records["value"] = np.frombuffer(
                        b"".join(cast("list[bytes]", rows["value"].to_pylist())), "V100"
                    )
                out.write(records.tobytes())
