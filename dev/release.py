#!/usr/bin/env python3
"""Makes a release of the commit that is checked out, in dist/VERSION, and publishes nothing.

    .venv/bin/python dev/release.py --cut           only changes CHANGELOG.md: Unreleased becomes the version
    .venv/bin/python dev/release.py --rehearsal     any commit, a throw-away key; installs the result
    .venv/bin/python dev/release.py --sign KEY      the release, of a clean tree with its tag
    .venv/bin/python dev/release.py --sign KEY --check-reproducible     builds twice, and compares

The version is that of python/tailrace/_version.py. A release has the wheel with the jars for all Sparks, the
source distribution, a Maven repository with an artifact for each Spark and its bundle, bills of materials,
signatures and SHA256SUMS. CONTRIBUTING.md says what remains to be done with them. Needs the extra `release`.
"""

from __future__ import annotations

import argparse
import email
import filecmp
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import rehearse
import sbom

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "python" / "build_backend"))
import readme  # noqa: E402
import sparks  # noqa: E402

_UNRELEASED = re.compile(r"^## Unreleased(?: \(([^)]+)\))?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# Kinds of files of an artifact, as Maven Central requires them.
_KINDS = (".pom", ".jar", "-sources.jar", "-javadoc.jar")
_LEGAL = ("META-INF/LICENSE", "META-INF/NOTICE")


class ReleaseError(RuntimeError):
    """There can be no release. The message says what is wrong and what to do."""


def version_of(root: Path) -> str:
    """The version that a checkout has.

    Raises:
        ReleaseError: its file has none.
    """
    file = root / "python" / "tailrace" / "_version.py"
    found = re.search(r'^__version__ = "([^"]+)"$', file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError(f'{file} has no line `__version__ = "..."`.')
    return found[1]


def cut(changelog: str, version: str, day: str) -> str:
    """The changelog with the section of a version in place of Unreleased, and an empty Unreleased above it.

    Args:
        changelog: its text.
        version: the version, without a letter before it.
        day: the date of the release, as in 2026-11-29.

    Raises:
        ReleaseError: nothing is unreleased, or that of another version is, or the version is there already.
    """
    if re.search(rf"^## {re.escape(version)} ", changelog, re.MULTILINE):
        raise ReleaseError(
            f"CHANGELOG.md has a section {version} already: change the version in _version.py."
        )
    found = _UNRELEASED.search(changelog)
    if found is None or not found[2].strip():
        raise ReleaseError("CHANGELOG.md has nothing under `## Unreleased`: write what is new.")
    if found[1] not in {None, version}:
        raise ReleaseError(
            f"CHANGELOG.md's section is Unreleased ({found[1]}), and _version.py says {version}."
        )
    heading = f"## Unreleased\n\n## {version} ({day})\n"
    return changelog[: found.start()] + heading + changelog[found.start(2) :]


def objections(root: Path, version: str) -> list[str]:
    """The reasons why a checkout is no release of this version."""
    told: list[str] = []
    changed = [line[3:] for line in _git(root, "status", "--porcelain").splitlines()]
    if changed:
        told.append(f"The tree has changes that aren't committed ({', '.join(changed[:5])}): commit them.")
    wanted = f"v{version}"
    tags = [tag for tag in _git(root, "tag", "--points-at", "HEAD").split() if tag.startswith("v")]
    if wanted not in tags:
        if tags:
            told.append(
                f"The tag of HEAD is {', '.join(tags)}, and _version.py says {version}: change one of them."
            )
        elif wanted in _git(root, "tag", "--list", wanted).split():
            told.append(f"The tag {wanted} is at another commit: check it out, or change _version.py.")
        else:
            told.append(f"HEAD has no tag {wanted}: git tag {wanted}.")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE):
        told.append(
            f"CHANGELOG.md has no section {version} with a date: dev/release.py --cut, and commit it."
        )
    return told


def build(root: Path, dist: Path, when: datetime) -> None:
    """Builds wheel, source distribution and Maven repository from a checkout.

    The same commit gives the same bytes: timestamps are `when`, or constants.

    Raises:
        ReleaseError: a build has failed; its output is on the terminal.
    """
    environ = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(int(when.timestamp())),
        sparks.VARIABLE: "all",
        "TAILRACE_MAVEN": str(dist / "maven"),
    }
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", str(dist), "-t", "sdist", "-t", "wheel"]
    _run(hatchling, root, environ)
    tasks = [f"{sparks.project(minor)}/publish" for minor in sparks.versions()]
    _run([sys.executable, "python/build_backend/sbt.py", *tasks], root, environ)


def check(dist: Path, version: str) -> None:
    """Checks what an index and Maven Central would refuse, or would show wrongly.

    Raises:
        ReleaseError: a file or a licence is missing, or the long description has relative links.
    """
    wrong: list[str] = []
    packages = [dist / f"tailrace-{version}-py3-none-any.whl", dist / f"tailrace-{version}.tar.gz"]
    files = {
        folder / f"{folder.parent.name}-{version}{kind}"
        for folder in _artifacts(dist, version)
        for kind in _KINDS
    }
    wrong += [f"{file.name} is missing" for file in sorted({*packages, *files}) if not file.is_file()]
    if wrong:
        raise ReleaseError(f"{dist} isn't whole: {'; '.join(wrong)}.")
    for jar in sorted(file for file in files if file.suffix == ".jar"):
        with zipfile.ZipFile(jar) as archive:
            wrong += [f"{jar.name} has no {name}" for name in _LEGAL if name not in archive.namelist()]
    with zipfile.ZipFile(packages[0]) as archive:
        info = f"tailrace-{version}.dist-info"
        description = email.message_from_bytes(archive.read(f"{info}/METADATA")).get_payload()
        wrong += [
            f"a link to {link} in the description is relative" for link in readme.relative(str(description))
        ]
        wrong += [
            f"the wheel has no {name}"
            for name in ("LICENSE", "NOTICE")
            if f"{info}/licenses/{name}" not in archive.namelist()
        ]
    if wrong:
        raise ReleaseError(f"{dist} can't be published: {'; '.join(wrong)}.")


def write_bills(dist: Path, version: str, when: datetime) -> None:
    """Writes the bills of materials: beside the wheel, and with checksums among each artifact's files."""
    wheel = dist / f"tailrace-{version}-py3-none-any.whl"
    bill = sbom.of_wheel(wheel, when)
    (dist / f"tailrace-{version}.cdx.json").write_text(bill, encoding="utf-8")
    for folder in _artifacts(dist, version):
        stem = f"{folder.parent.name}-{version}"
        written = folder / f"{stem}-cyclonedx.json"
        bill = sbom.of_jar(folder / f"{stem}.jar", folder / f"{stem}.pom", when)
        written.write_text(bill, encoding="utf-8")
        for name in ("md5", "sha1"):
            checksum = hashlib.new(name, written.read_bytes(), usedforsecurity=False).hexdigest()
            written.with_name(f"{written.name}.{name}").write_text(checksum, encoding="ascii")


def sign(files: Sequence[Path], key: str, environ: Mapping[str, str]) -> None:
    """Writes a detached signature beside each file, and verifies it.

    Raises:
        ReleaseError: gpg isn't installed, or has no such key.
    """
    gpg = _gpg()
    for file in files:
        signature = f"{file}.asc"
        made = ["--yes", "--local-user", key, "--armor", "--output", signature, "--detach-sign", str(file)]
        for line in (made, ["--verify", signature, str(file)]):
            done = subprocess.run(
                [gpg, "--batch", *line], env=environ, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise ReleaseError(f"gpg can't sign {file.name} with {key}: {done.stderr.strip()}")


def bundle(dist: Path, version: str, when: datetime) -> Path:
    """Writes the zip file that Maven Central takes: the Maven repository, with its signatures."""
    written = dist / f"tailrace-{version}-maven.zip"
    time = when.astimezone(UTC).timetuple()[:6]
    with zipfile.ZipFile(written, "w") as archive:
        for file in _files(dist / "maven"):
            entry = zipfile.ZipInfo(file.relative_to(dist / "maven").as_posix(), time)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return written


def write_sums(dist: Path) -> Path:
    """Writes SHA256SUMS over all files, as `sha256sum --check` reads it."""
    written = dist / "SHA256SUMS"
    written.unlink(missing_ok=True)
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(dist).as_posix()}\n"
        for file in _files(dist)
    ]
    written.write_text("".join(lines), encoding="utf-8")
    return written


def differences(first: Path, second: Path) -> list[str]:
    """The files that two folders don't have in common with the same bytes, and the entries of archives."""
    names = {file.relative_to(folder) for folder in (first, second) for file in _files(folder)}
    told: list[str] = []
    for name in sorted(names):
        pair = (first / name, second / name)
        if not all(file.is_file() for file in pair):
            told.append(f"{name} (only in one)")
        elif not filecmp.cmp(*pair, shallow=False):
            told.append(f"{name}{_entries(*pair)}")
    return told


def check_reproducible(root: Path, dist: Path, when: datetime) -> None:
    """Builds HEAD again, in a clone elsewhere, and compares all bytes.

    Raises:
        ReleaseError: a file differs.
    """
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary, "clone")
        _git(root, "clone", "--quiet", str(root), str(clone))
        _git(clone, "checkout", "--quiet", _git(root, "rev-parse", "HEAD").strip())
        build(clone, Path(temporary, "dist"), when)
        told = differences(dist, Path(temporary, "dist"))
    if told:
        raise ReleaseError(f"A second build of the commit differs: {'; '.join(told)}.")
    print(f"A second build, in a clone, gave the same {len(_files(dist))} files.", flush=True)


@contextmanager
def throwaway_key(environ: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """A key of gpg's that is deleted afterwards: its name, and the environment to use it in.

    Raises:
        ReleaseError: gpg isn't installed, or can't make a key.
    """
    gpg, name = _gpg(), "Tailrace rehearsal <rehearsal@localhost>"
    with tempfile.TemporaryDirectory() as home:
        own = {**environ, "GNUPGHOME": home}
        make = [gpg, "--batch", "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "1d"]
        done = subprocess.run(make, env=own, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ReleaseError(f"gpg can't make a key: {done.stderr.strip()}")
        try:
            yield name, own
        finally:
            # Otherwise gpg's agent outlives its folder.
            subprocess.run(["gpgconf", "--kill", "all"], env=own, check=False)  # noqa: S607


def _gpg() -> str:
    gpg = shutil.which("gpg")
    if gpg is None:
        raise ReleaseError("gpg isn't installed, which signs the files: install GnuPG, or leave --sign out.")
    return gpg


def _artifacts(dist: Path, version: str) -> list[Path]:
    """The folders of the Maven artifacts: one for each minor version of Spark."""
    group = dist / "maven" / "io" / "tailrace"
    return [group / f"tailrace-spark{minor}_2.13" / version for minor in sparks.versions()]


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _entries(first: Path, second: Path) -> str:
    if not all(zipfile.is_zipfile(file) for file in (first, second)):
        return ""
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        facts = [
            {
                entry.filename: (entry.CRC, entry.date_time, entry.external_attr)
                for entry in archive.infolist()
            }
            for archive in (one, other)
        ]
    named = sorted(name for name in facts[0] | facts[1] if facts[0].get(name) != facts[1].get(name))
    return f" (entries {', '.join(named[:5])})" if named else " (order or compression of its entries)"


def _git(root: Path, *arguments: str) -> str:
    git = shutil.which("git") or "git"
    done = subprocess.run([git, *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _run(line: Sequence[str], root: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(line, cwd=root, env=environ, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(line[1:])} failed with exit code {done.returncode}.")


def _release(root: Path, asked: argparse.Namespace) -> None:
    version = version_of(root)
    told = objections(root, version)
    if told and not asked.rehearsal:
        raise ReleaseError(" ".join(told))
    for one in told:
        print(f"A release would be refused: {one}", flush=True)
    # A rehearsal leaves a release as it is.
    dist = root / "dist" / (f"{version}-rehearsal" if asked.rehearsal else version)
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    when = datetime.fromtimestamp(int(_git(root, "log", "-1", "--format=%ct")), UTC)
    build(root, dist, when)
    if asked.check_reproducible:
        check_reproducible(root, dist, when)
    check(dist, version)
    twine = [sys.executable, "-m", "twine", "check", "--strict", str(dist / "*.whl"), str(dist / "*.tar.gz")]
    _run(twine, root, os.environ)
    write_bills(dist, version, when)
    keys = (
        throwaway_key(os.environ)
        if asked.sign is None and asked.rehearsal
        else nullcontext((asked.sign, os.environ))
    )
    with keys as (key, environ):
        if key is not None:
            checksums = {".md5", ".sha1"}
            sign([file for file in _files(dist) if file.suffix not in checksums], key, environ)
        # Both include the signatures above.
        for last in (partial(bundle, dist, version, when), partial(write_sums, dist)):
            written = last()
            if key is not None:
                sign([written], key, environ)
    print(
        f"{dist.relative_to(root)} has {len(_files(dist))} files, {'' if key else 'not '}signed.", flush=True
    )
    if asked.rehearsal:
        rehearse.rehearse(root, dist)


def command_line() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "--cut", action="store_true", help="only change CHANGELOG.md: Unreleased is this version"
    )
    made.add_argument("--rehearsal", action="store_true", help="take any commit, and install what was built")
    made.add_argument("--sign", metavar="KEY", help="sign with this key of gpg's")
    made.add_argument("--check-reproducible", action="store_true", help="build twice, and compare the bytes")
    return made


def main(arguments: Sequence[str] | None = None, *, root: Path = REPOSITORY) -> int:
    """Runs the command; a release that can't be made is told in one line, and the exit code is 1."""
    asked = command_line().parse_args(arguments)
    try:
        if asked.cut:
            changelog = root / "CHANGELOG.md"
            text = cut(
                changelog.read_text(encoding="utf-8"), version_of(root), f"{datetime.now(UTC):%Y-%m-%d}"
            )
            changelog.write_text(text, encoding="utf-8")
        else:
            _release(root, asked)
    except (ReleaseError, rehearse.RehearsalError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
