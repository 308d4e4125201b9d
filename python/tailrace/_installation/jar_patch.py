"""A jar as its difference from another one, which has most classes in common with it.

The jars for several Sparks differ in some ten classes of two thousand, and each is 5 MB: a wheel holds one of
them, and patches. Standard library only, and imports nothing of the package: the build backend loads this
file by its path, before the package's dependencies exist.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Entries of a patch: the names of the base's entries that the jar lacks, and the base's SHA-256.
_LEFT_OUT = "META-INF/tailrace-left-out"
_BASE = "META-INF/tailrace-base"
_MANIFEST = "META-INF/MANIFEST.MF"


def write(base: Path, jar: Path, patch: Path) -> None:
    """Writes the patch that makes a jar from another one.

    Args:
        base: a jar.
        jar: the one that `apply` is to make of it.
        patch: where the patch is written.
    """
    with zipfile.ZipFile(base) as old, zipfile.ZipFile(jar) as new:
        before = {entry.filename: (entry.CRC, entry.file_size) for entry in old.infolist()}
        changed = [
            entry
            for entry in new.infolist()
            if entry.filename == _MANIFEST or before.get(entry.filename) != (entry.CRC, entry.file_size)
        ]
        left_out = sorted(before.keys() - set(new.namelist()))
        with zipfile.ZipFile(patch, "w", zipfile.ZIP_DEFLATED) as out:
            for entry in changed:
                out.writestr(entry, new.read(entry), zipfile.ZIP_DEFLATED)
            # A ZipInfo has a fixed time. A name would get the time of the build, and two builds would differ.
            out.writestr(zipfile.ZipInfo(_LEFT_OUT), "\n".join(left_out), zipfile.ZIP_DEFLATED)
            out.writestr(zipfile.ZipInfo(_BASE), _digest(base), zipfile.ZIP_DEFLATED)


def apply(base: Path, patch: Path, name: str, folders: Sequence[Path]) -> Path:
    """Returns the jar that a patch makes from its base. It is made once.

    Args:
        base: the jar that the patch was written for.
        patch: the patch.
        name: the jar's file name.
        folders: where it may be, in a folder of its own that base and patch name; it is made in the first one
            of them that can be written to.

    Raises:
        OSError: none of them can be written to.
        zipfile.BadZipFile: base or patch is damaged, or the patch belongs to another base.
    """
    content = hashlib.sha256(base.read_bytes() + patch.read_bytes()).hexdigest()[:16]
    places = [folder / content / name for folder in folders]
    # A jar that a full disk has truncated is made again: pip doesn't know it, and wouldn't replace it.
    found = next((place for place in places if zipfile.is_zipfile(place)), None)
    if found is not None:
        return found
    refusals: list[OSError] = []
    for place in places:
        try:
            _make(base, patch, place)
        except OSError as error:
            refusals.append(error)
        else:
            return place
    raise refusals[-1]


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def _read(patch: Path) -> dict[str, tuple[zipfile.ZipInfo, bytes]]:
    """The entries of a patch by their names, all of which fit in memory."""
    content = io.BytesIO(patch.read_bytes())
    try:
        with zipfile.ZipFile(content) as archive:
            return {entry.filename: (entry, archive.read(entry)) for entry in archive.infolist()}
    except (EOFError, NotImplementedError, OSError, ValueError, zlib.error) as error:
        # Errors that zipfile raises for damaged bytes, besides its own.
        raise zipfile.BadZipFile(str(error)) from error


def _make(base: Path, patch: Path, place: Path) -> None:
    new = _read(patch)
    lacking = {_BASE, _LEFT_OUT} - new.keys()
    if lacking or new.pop(_BASE)[1].decode() != _digest(base):
        raise zipfile.BadZipFile(f"{patch.name} is of another jar than {base.name}")
    left_out = new.pop(_LEFT_OUT)[1].decode().split("\n")
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out,
            zipfile.ZipFile(base) as old,
        ):
            # Java expects the manifest first, where a patch has it like each jar.
            for entry, content in new.values():
                out.writestr(entry, content, zipfile.ZIP_DEFLATED)
            for entry in old.infolist():
                if entry.filename not in new and entry.filename not in left_out:
                    out.writestr(entry, old.read(entry), zipfile.ZIP_DEFLATED)
        # Executors run as other users; and another process may be making the same.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(place)
    finally:
        Path(temporary).unlink(missing_ok=True)
