"""A note beside each jar in jvm/target of the sources it was made of: sbt need not run if they are the same.

Standard library only: the build's hook loads this file by its path.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def digest(root: Path) -> str:
    """Hashes the files that sbt makes a jar of: the sources, the build, and the version.

    Raises:
        OSError: one of them can't be read.
    """
    sources = hashlib.sha256()
    for file in sorted(_sources(root)):
        sources.update(f"{file.relative_to(root).as_posix()}\0{_hash(file)}\n".encode())
    return sources.hexdigest()


def is_current(jar: Path, sources: str) -> bool:
    """Returns true if the jar is the one that was noted with these sources.

    A jar that something else has written since, such as `sbt package`, is not known, and so not current.
    """
    try:
        return _note_of(jar).read_text(encoding="ascii") == f"{sources} {_hash(jar)}\n"
    except OSError:
        return False


def note(jar: Path, sources: str) -> None:
    """Notes that sbt has made this jar of these sources, which were hashed before it began.

    Raises:
        OSError: the jar can't be read, or the note can't be written.
    """
    _note_of(jar).write_text(f"{sources} {_hash(jar)}\n", encoding="ascii")


def _note_of(jar: Path) -> Path:
    return jar.with_name(f"{jar.name}.sources")


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    yield from (root / name for name in ("build.sbt", "LICENSE", "NOTICE"))
    yield root / "python" / "tailrace" / "_version.py"
    for folder in ("jvm/src/main", "project"):
        for place, folders, files in os.walk(root / folder):
            folders[:] = [name for name in folders if name not in {"target", "project"}]
            yield from (root.joinpath(place, name) for name in files)
