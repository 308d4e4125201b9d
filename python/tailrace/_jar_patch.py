"""A jar as its difference from another one, which has most classes in common with it.

The jars for several Sparks differ in some ten classes of two thousand, and each is 5 MB: a wheel holds one of
them, and patches. Standard library only, and imports nothing of the package: the build backend loads this
file by its path, before the package's dependencies exist.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# An entry of a patch: the names of the base's entries that the jar lacks.
_LEFT_OUT = "META-INF/tailrace-left-out"
_MANIFEST = "META-INF/MANIFEST.MF"


def write(base: Path, jar: Path, patch: Path) -> None:
    """Writes what makes a jar of another one.

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
            out.writestr(_LEFT_OUT, "\n".join(left_out))


def apply(base: Path, patch: Path, name: str, folders: Sequence[Path]) -> Path:
    """Returns the jar that a patch makes of its base, which is made once.

    Args:
        base: the jar that the patch was written for.
        patch: the patch.
        name: the jar's file name.
        folders: where it may be, in a folder of its own that base and patch name; it is made in the first one
            of them that can be written to.

    Raises:
        OSError: none of them can be written to.
        zipfile.BadZipFile: base or patch is damaged.
    """
    content = hashlib.sha256(base.read_bytes() + patch.read_bytes()).hexdigest()[:16]
    places = [folder / content / name for folder in folders]
    found = next((place for place in places if place.is_file()), None)
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


def _make(base: Path, patch: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent, suffix=".tmp")
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out,
            zipfile.ZipFile(base) as old,
            zipfile.ZipFile(patch) as new,
        ):
            replaced = set(new.namelist()) | set(new.read(_LEFT_OUT).decode().split("\n"))
            # Java looks for the manifest in front, where a patch has it as each jar has.
            for archive, entries in (
                (new, [entry for entry in new.infolist() if entry.filename != _LEFT_OUT]),
                (old, [entry for entry in old.infolist() if entry.filename not in replaced]),
            ):
                for entry in entries:
                    out.writestr(entry, archive.read(entry), zipfile.ZIP_DEFLATED)
        # Executors run as other users; and another process may be making the same.
        Path(temporary).chmod(0o644)
        Path(temporary).replace(place)
    finally:
        Path(temporary).unlink(missing_ok=True)
