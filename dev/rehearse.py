#!/usr/bin/env python3
"""Installs a release as its users will: from a package index and a Maven repository, both on loopback.

    .venv/bin/python dev/rehearse.py                        what dev/release.py has left in dist
    .venv/bin/python dev/rehearse.py --wheel build/wheel/tailrace-0.1.0-py3-none-any.whl     the index only
    .venv/bin/python dev/rehearse.py --spark 4.2            with the newest pyspark 4.2

pip, configured as usual, downloads the wheel's dependencies into the index, and then installs tailrace into
a new environment from the index alone. README's first example runs there and has to print what README shows.
So have a newcomer's first four projects (walk.py), for which pip installs more packages from the index.
The example runs a second time with `spark-submit --packages`, without the package's jars. The PATH has
neither javac nor sbt. Standard library only, and pip.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pages
import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
# Programs that only a build needs.
_OF_A_BUILD = re.compile(r"(javac|jar|jshell|sbtn?|scalac?|mvn|gradle)(\.\w+)?")
_DEADLINE = 900
_CONFIGURED = "tailrace.configure(builder).getOrCreate()"
# Lines after the example that write down where the JVM loaded Tailrace from.
_LOADED = """
loader = spark._jvm.Thread.currentThread().getContextClassLoader()
source = loader.loadClass("io.tailrace.TailraceExtensions").getProtectionDomain().getCodeSource()
open("loaded", "w").write(source.getLocation().getPath())
"""


class RehearsalError(RuntimeError):
    """A step of the rehearsal has failed. The message says which, and what it said."""


def write_index(site: Path) -> None:
    """Writes the pages of a package index (PEP 503) below `simple`, of the files in `files`."""
    by_name: dict[str, list[Path]] = {}
    for file in sorted((site / "files").iterdir()):
        # The name of a wheel or a source distribution ends at the first hyphen before a digit.
        name = re.split(r"-(?=\d)", file.name, maxsplit=1)[0]
        by_name.setdefault(re.sub(r"[-_.]+", "-", name).lower(), []).append(file)
    _page(site / "simple", [(f"{name}/", name) for name in by_name])
    for name, files in by_name.items():
        links = [
            (f"../../files/{file.name}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}", file.name)
            for file in files
        ]
        _page(site / "simple" / name, links)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder's files on loopback; gives the URL, without a slash at its end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def runtime(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a machine with a Java runtime, and without a compiler of Java or sbt.

    Args:
        folder: where its programs and its home are made.
        environ: JAVA_HOME and PATH are read.

    Raises:
        RehearsalError: there is no Java.
    """
    programs = folder / "bin"
    for made in (programs, folder / "home"):
        made.mkdir(parents=True)
    path = environ.get("PATH", "")
    home = environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else path)
    if java is None:
        raise RehearsalError("The rehearsal needs a Java, as JAVA_HOME or on the PATH: install it.")
    found = {"java": Path(java)}
    for place in map(Path, filter(None, path.split(os.pathsep))):
        if place.is_dir():
            found |= {one.name: one for one in place.iterdir() if one.name not in found}
    for name, program in found.items():
        if not _OF_A_BUILD.fullmatch(name):
            (programs / name).symlink_to(program)
    own_home = str(folder / "home")
    return {
        "PATH": str(programs),
        "HOME": own_home,
        "LANG": "C.UTF-8",
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Java asks the system for the user's home, where Ivy and Maven would find earlier artifacts. Nothing
        # here runs long enough for what the second compiler costs.
        "SPARK_SUBMIT_OPTS": f"-Duser.home={own_home} -XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def rehearse(root: Path, dist: Path | None, *, wheel: Path | None = None, spark: str | None = None) -> None:
    """Runs all steps.

    Args:
        root: the checkout whose README is followed.
        dist: the folder of a release.
        wheel: the wheel to install, in place of that of a release; then the Maven repository is left out.
        spark: a minor version such as "4.2", if pip isn't to take the newest pyspark that it may.

    Raises:
        RehearsalError: a step has failed.
    """
    if wheel is None:
        wheels = sorted((dist or root / "dist").glob("tailrace-*.whl"))
        if len(wheels) != 1:
            raise RehearsalError(
                f"{dist} has {len(wheels)} wheels of tailrace: run dev/release.py --rehearsal."
            )
        wheel = wheels[0]
    code, shown = pages.shown_example(root, "README.md", "quickstart")
    with tempfile.TemporaryDirectory(prefix="tailrace-rehearsal-") as temporary:
        place = Path(temporary)
        site = place / "site"
        pinned = [f"pyspark=={spark}.*"] if spark else []
        gather = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(site / "files")]
        extra, *more = walk.REQUIRED
        line = [*gather, f"{wheel.absolute()}[{extra}]", *more, *pinned]
        _step("The wheel's dependencies, into the index", line, place, dict(os.environ))
        write_index(site)
        if dist is not None:
            (site / "maven").symlink_to(dist.absolute() / "maven")
        environ = runtime(place, os.environ)
        _step("A new environment", [sys.executable, "-m", "venv", str(place / "venv")], place, environ)
        python = place / "venv" / "bin" / "python"
        with served(site) as url:
            version = wheel.name.split("-")[1]
            install = f"-m pip install --quiet --no-cache-dir --only-binary :all: --index-url {url}/simple"
            line = [str(python), *install.split(), *pinned]
            _step("pip install tailrace", [*line, f"tailrace=={version}"], place, environ)
            _example("README's first example", [str(python)], code, shown, place / "first", environ)
            more = [f"tailrace[{extra}]=={version}", *more]
            _step(f"pip install {' '.join(more)}", [*line, *more], place, environ)
            walk.walk(root, place / "projects", python, environ, _step)
            if dist is None:
                print("== left out: spark-submit --packages, for a wheel alone", flush=True)
            else:
                _by_packages(place, dist, f"{url}/maven", (code, shown), environ)


def _by_packages(
    place: Path, dist: Path, repository: str, example: tuple[str, str], environ: Mapping[str, str]
) -> None:
    """Runs the example with the jar of the Maven repository, and with a package that has none."""
    code, shown = example
    if _CONFIGURED not in code:
        raise RehearsalError(f"README's first example has no {_CONFIGURED}, which --packages replaces.")
    (package,) = place.glob("venv/lib/python*/site-packages/tailrace")
    (pyspark,) = place.glob("venv/lib/python*/site-packages/pyspark-*.dist-info")
    minor = re.sub(r"^pyspark-(\d+\.\d+)\..*$", r"\1", pyspark.name)
    (jar,) = dist.glob(
        f"maven/io/tailrace/tailrace-spark{minor}_2.13/*/tailrace-spark{minor}_2.13-*[0-9].jar"
    )
    coordinate = f"io.tailrace:{jar.parent.parent.name}:{jar.parent.name}"
    (package / "jars").rename(place / "jars-of-the-wheel")
    ivy = place / "ivy"
    ivy.mkdir()
    line = [
        str(place / "venv" / "bin" / "spark-submit"),
        *("--repositories", repository, "--packages", coordinate, "--conf", f"spark.jars.ivy={ivy}"),
    ]
    # Ivy asks Spark's default repositories first: here they are the one on loopback, too.
    environ = {
        **environ,
        "DEFAULT_ARTIFACT_REPOSITORY": f"{repository}/",
        "PYSPARK_PYTHON": str(place / "venv/bin/python"),
    }
    code = code.replace(_CONFIGURED, "builder.getOrCreate()") + _LOADED
    folder = place / "packages"
    _example(f"spark-submit --packages {coordinate}", line, code, shown, folder, environ)
    loaded = Path((folder / "loaded").read_text(encoding="utf-8"))
    resolved = sorted(file.name for file in (ivy / "jars").iterdir())
    if not loaded.is_file() or loaded.read_bytes() != jar.read_bytes():
        raise RehearsalError(f"Spark loaded Tailrace from {loaded}, and expected are the bytes of {jar}.")
    if len(resolved) != 1:
        raise RehearsalError(f"Ivy resolved {', '.join(resolved)}, and expected is Tailrace's jar alone.")


def _example(
    name: str, command: Sequence[str], code: str, shown: str, folder: Path, environ: Mapping[str, str]
) -> None:
    folder.mkdir()
    (folder / "first.py").write_text(code, encoding="utf-8")
    printed = _step(name, [*command, "first.py"], folder, environ)
    if printed.strip() != shown.strip():
        raise RehearsalError(f"{name} printed this, and README shows something else:\n{printed}")


def _step(name: str, line: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Runs a command, and returns its output."""
    print(f"== {name}", flush=True)
    began = time.monotonic()
    try:
        done = subprocess.run(
            line,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_DEADLINE,
        )
    except subprocess.TimeoutExpired as error:
        raise RehearsalError(f"{name} didn't end in {_DEADLINE} s: {' '.join(line)}") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-6000:]
        raise RehearsalError(f"{name} failed with exit code {done.returncode}: {' '.join(line)}\n{output}")
    print(f"   passed in {time.monotonic() - began:.0f} s", flush=True)
    return done.stdout


def _only_release(folder: Path) -> Path:
    found = sorted(wheel.parent for wheel in folder.glob("*/tailrace-*.whl"))
    if len(found) != 1:
        raise RehearsalError(f"{folder} has {len(found)} releases: name one with --dist.")
    return found[0]


def _page(folder: Path, links: Sequence[tuple[str, str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f'<a href="{html.escape(to)}">{html.escape(text)}</a><br>\n' for to, text in links)
    (folder / "index.html").write_text(
        f"<!DOCTYPE html>\n<html><body>\n{lines}</body></html>\n", encoding="utf-8"
    )


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing of each request."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rehearsal; the first step that fails is told, and the exit code is 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dist", type=Path, help="a release's folder; by default the only one in dist")
    parser.add_argument("--wheel", type=Path, help="this wheel, without a Maven repository")
    parser.add_argument("--spark", metavar="MINOR", help="the newest pyspark of this minor version")
    asked = parser.parse_args(arguments)
    try:
        dist = asked.dist if asked.dist or asked.wheel else _only_release(REPOSITORY / "dist")
        rehearse(REPOSITORY, dist, wheel=asked.wheel, spark=asked.spark)
    except (RehearsalError, walk.WalkError, LookupError) as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
