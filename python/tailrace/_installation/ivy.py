"""Jars from Maven repositories, by the Apache Ivy jar that pyspark ships."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tailrace._installation.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Tailrace's part of the user's cache directory, by the platform's custom."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base.absolute() / "tailrace"


def resolve(name: str, modules: Sequence[tuple[str, str, str]], *, transitive: bool) -> Path:
    """Makes Ivy fetch the jars of some Maven modules, once, into the user's cache.

    Args:
        name: their directory in the cache; with a version in it, because a directory that exists is used.
        modules: organisation, name and version of each.
        transitive: whether their dependencies are included.

    Returns:
        The directory with the jars.

    Raises:
        RuntimeError: Ivy can't reach its repositories, or one of the modules doesn't exist.
    """
    found = cache_directory(os.environ) / name
    if found.is_dir():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    # Resolved elsewhere and moved into place: an interrupted download never leaves half of the jars.
    with tempfile.TemporaryDirectory(dir=found.parent) as temporary:
        aside = Path(temporary)
        wanted = aside / "ivy.xml"
        wanted.write_text(_ivy_file(modules, transitive=transitive), encoding="utf-8")
        line = [
            *[str(find_java(os.environ).path), "-jar", str(ivy), "-ivy", str(wanted)],
            *["-confs", "default", "-types", "jar", "bundle", "-cache", f"{aside}/ivy"],
            *["-retrieve", f"{aside}/jars/[artifact]-[revision](-[classifier]).[ext]"],
        ]
        done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=aside)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(line[-4:])}: {done.stdout}{done.stderr}")
        for _, module, _ in modules:
            if not list((aside / "jars").glob(f"{module}-*.jar")):
                raise RuntimeError(
                    f"Ivy hasn't resolved {module}: check the network and Java's proxy settings."
                )
        try:
            (aside / "jars").rename(found)
        except OSError:
            # Another process was faster.
            if not found.is_dir():
                raise
            shutil.rmtree(aside / "jars")
    return found


def _ivy_file(modules: Sequence[tuple[str, str, str]], *, transitive: bool) -> str:
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default" '
        f'transitive="{str(transitive).lower()}"/>'
        for organisation, name, version in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="tailrace" module="tests"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
