"""`dev/release.py`, `dev/sbom.py` and `dev/rehearse.py`, but for what sbt and Spark do in the rehearsal."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import readme_renderer.markdown
from hatchling.builders.wheel import WheelBuilder

import pages
import rehearse
import release
import release_files
import sbom
from release_files import METADATA, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

WHEN = datetime(2026, 11, 29, 12, tzinfo=UTC)
MAVEN = "maven/io/tailrace/tailrace-spark4.2_2.13/0.1.0/tailrace-spark4.2_2.13-0.1.0"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    release_files.write(folder)
    return folder


@pytest.fixture
def readme(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("python/build_backend/readme.py")


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of the release v0.1.0."""
    folder = tmp_path / "root"
    (folder / "python" / "tailrace").mkdir(parents=True)
    (folder / "python" / "tailrace" / "_version.py").write_text(f'__version__ = "{VERSION}"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION} (2026-11-29)\n\n- join\n")
    (folder / ".gitignore").write_text("dist/\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", f"v{VERSION}")
    return folder


def test_a_clean_tree_with_its_tag_and_its_changelog_is_a_release(root: Path) -> None:
    assert release.objections(root, VERSION) == []


def test_a_dirty_tree_is_refused_by_the_names_of_files(root: Path) -> None:
    (root / "new.py").touch()
    (root / "CHANGELOG.md").write_text(f"## {VERSION} (2026-11-29)\n")
    assert release.objections(root, VERSION) == [
        "The tree has changes that aren't committed (CHANGELOG.md, new.py): commit them."
    ]


def test_a_version_that_disagrees_with_the_tag_is_refused(root: Path) -> None:
    (root / "python/tailrace/_version.py").write_text('__version__ = "0.2.0"\n')
    git(root, "commit", "-qam", "next", "--allow-empty")
    untagged, changelog = release.objections(root, "0.2.0")
    assert untagged == "HEAD has no tag v0.2.0: git tag v0.2.0."
    assert changelog.startswith("CHANGELOG.md has no section 0.2.0 with a date")
    assert release.objections(root, VERSION) == [
        "The tag v0.1.0 is at another commit: check it out, or change _version.py."
    ]
    git(root, "tag", "v0.3.0")
    assert release.objections(root, "0.2.0")[0] == (
        "The tag of HEAD is v0.3.0, and _version.py says 0.2.0: change one of them."
    )


def test_a_refused_release_builds_nothing_and_a_rehearsal_goes_on(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(*_: object) -> None:
        raise release.ReleaseError("the build has begun")

    monkeypatch.setattr(release, "build", build)
    (root / "new.py").touch()
    assert release.main([], root=root) == 1
    refusal = "The tree has changes that aren't committed (new.py): commit them."
    assert capsys.readouterr().err == f"release: {refusal}\n"
    assert not (root / "dist").exists()
    assert release.main(["--rehearsal"], root=root) == 1
    told = capsys.readouterr()
    assert told.out == f"A release would be refused: {refusal}\n"
    assert told.err == "release: the build has begun\n"


def test_the_changelog_of_this_repository_can_be_cut(
    repository: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (repository / "CHANGELOG.md").read_text()
    (root / "CHANGELOG.md").write_text(before)
    assert release.main(["--cut"], root=root) == 0
    after = (root / "CHANGELOG.md").read_text()
    first, second, *_ = re.findall(r"^## .*$", after, re.MULTILINE)
    assert first == "## Unreleased"
    assert re.fullmatch(r"## 0\.1\.0 \(\d{4}-\d\d-\d\d\)", second)
    assert after.replace(f"{first}\n\n{second}\n", "## Unreleased (0.1.0)\n") == before
    git(root, "commit", "-qam", "cut")
    git(root, "tag", "-f", f"v{VERSION}")
    assert release.objections(root, VERSION) == []
    assert release.main(["--cut"], root=root) == 1
    assert capsys.readouterr().err == (
        "release: CHANGELOG.md has a section 0.1.0 already: change the version in _version.py.\n"
    )


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        ("# Changelog\n\n## 0.0.9 (2026-01-01)\n\n- a\n", "nothing under `## Unreleased`"),
        ("## Unreleased\n\n\n## 0.0.9 (2026-01-01)\n\n- a\n", "nothing under `## Unreleased`"),
        ("## Unreleased (0.2.0)\n\n- a\n", r"is Unreleased \(0\.2\.0\), and _version\.py says 0\.1\.0"),
    ],
)
def test_a_changelog_that_cant_be_cut_is_refused(changelog: str, said: str) -> None:
    with pytest.raises(release.ReleaseError, match=said):
        release.cut(changelog, VERSION, "2026-11-29")


def test_the_sections_below_are_left_as_they_are() -> None:
    changelog = "# Changelog\n\n## Unreleased\n\n### Added\n\n- b\n\n## 0.0.9 (2026-01-01)\n\n- a\n"
    assert release.cut(changelog, VERSION, "2026-11-29") == (
        "# Changelog\n\n## Unreleased\n\n## 0.1.0 (2026-11-29)\n\n### Added\n\n- b\n\n"
        "## 0.0.9 (2026-01-01)\n\n- a\n"
    )


def test_a_whole_release_passes_and_what_is_missing_is_named(dist: Path) -> None:
    release.check(dist, VERSION)
    (dist / f"{MAVEN}-javadoc.jar").unlink()
    with pytest.raises(
        release.ReleaseError, match=r"isn't whole: tailrace-spark4\.2_2\.13-0\.1\.0-javadoc\.jar"
    ):
        release.check(dist, VERSION)


def test_what_cant_be_published_is_named(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    release_files.write(dist, METADATA + "[guide](docs/guide.md) ![picture](docs/a.svg)\n")
    with zipfile.ZipFile(dist / f"{MAVEN}-sources.jar", "w") as jar:
        jar.writestr("META-INF/LICENSE", "licence")
    with pytest.raises(release.ReleaseError) as refused:
        release.check(dist, VERSION)
    assert str(refused.value).endswith(
        "tailrace-spark4.2_2.13-0.1.0-sources.jar has no META-INF/NOTICE; "
        "a link to docs/guide.md in the description is relative; "
        "a link to docs/a.svg in the description is relative."
    )


def test_the_wheels_bill_has_its_hash_its_licence_its_jars_and_its_dependencies(dist: Path) -> None:
    release.write_bills(dist, VERSION, WHEN)
    written = dist / "tailrace-0.1.0.cdx.json"
    bill = json.loads(written.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["timestamp"] == "2026-11-29T12:00:00+00:00"
    component = bill["metadata"]["component"]
    wheel = dist / "tailrace-0.1.0-py3-none-any.whl"
    assert component["purl"] == "pkg:pypi/tailrace@0.1.0"
    assert component["licenses"] == [{"expression": "Apache-2.0"}]
    assert {"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()} in component[
        "hashes"
    ]
    (jar,) = component["components"]
    assert jar["name"] == "tailrace/jars/tailrace-spark4.2_2.13-0.1.0.jar"
    assert {"alg": "SHA-256", "content": hashlib.sha256(b"jar").hexdigest()} in jar["hashes"]
    assert {
        one["name"]: (one["scope"], [fact["value"] for fact in one["properties"]])
        for one in bill["components"]
    } == {
        "numpy": ("optional", ['numpy>=1.26; extra == "demo"']),
        "pyarrow": ("required", ["pyarrow>=18"]),
        "pyspark": ("required", ["pyspark<4.4,>=4.1", 'pyspark[connect]; extra == "connect"']),
    }
    first = written.read_bytes()
    release.write_bills(dist, VERSION, WHEN)
    assert written.read_bytes() == first


def test_a_jars_bill_says_that_users_bring_spark(dist: Path) -> None:
    release.write_bills(dist, VERSION, WHEN)
    written = dist / f"{MAVEN}-cyclonedx.json"
    bill = json.loads(written.read_text())
    component = bill["metadata"]["component"]
    jar = dist / f"{MAVEN}.jar"
    assert component["purl"] == "pkg:maven/io.tailrace/tailrace-spark4.2_2.13@0.1.0"
    assert component["licenses"] == [{"expression": "Apache-2.0"}]
    assert {"alg": "SHA-256", "content": hashlib.sha256(jar.read_bytes()).hexdigest()} in component["hashes"]
    assert {one["purl"]: one["properties"][0]["value"] for one in bill["components"]} == {
        "pkg:maven/org.apache.spark/spark-sql_2.13@4.2.0": "provided",
        "pkg:maven/org.scala-lang/scala-library@2.13.18": "compile",
    }
    checksum = hashlib.sha1(written.read_bytes(), usedforsecurity=False).hexdigest()
    assert Path(f"{written}.sha1").read_text() == checksum


def test_files_that_are_no_wheel_and_no_pom_of_ours_are_refused(dist: Path) -> None:
    with pytest.raises(ValueError, match="is no wheel"):
        sbom.of_wheel(dist / f"{MAVEN}.jar", WHEN)
    pom = dist / f"{MAVEN}.pom"
    pom.write_text(pom.read_text().replace("Apache-2.0", ""))
    with pytest.raises(ValueError, match="lacks groupId"):
        sbom.of_jar(dist / f"{MAVEN}.jar", pom, WHEN)


def test_checksums_are_of_all_files_and_find_a_change(dist: Path) -> None:
    sums = release.write_sums(dist)
    assert len(sums.read_text().splitlines()) == len([file for file in dist.rglob("*") if file.is_file()]) - 1
    check = ["sha256sum", "--check", "--strict", "--quiet", sums.name]
    assert subprocess.run(check, cwd=dist, check=False).returncode == 0
    with (dist / f"{MAVEN}.jar").open("ab") as jar:
        jar.write(b"x")
    assert subprocess.run(check, cwd=dist, check=False, capture_output=True).returncode == 1


def test_a_signature_fits_its_file_alone_and_the_key_is_deleted(dist: Path) -> None:
    file = dist / "tailrace-0.1.0.tar.gz"
    with release.throwaway_key(os.environ) as (key, environ):
        release.sign([file], key, environ)
        verify = ["gpg", "--batch", "--verify", f"{file}.asc", str(file)]
        assert subprocess.run(verify, env=environ, check=False, capture_output=True).returncode == 0
        file.write_bytes(b"another")
        assert subprocess.run(verify, env=environ, check=False, capture_output=True).returncode == 1
        with pytest.raises(
            release.ReleaseError, match=r"gpg can't sign tailrace-0\.1\.0\.tar\.gz with nobody"
        ):
            release.sign([file], "nobody", environ)
    assert not Path(environ["GNUPGHOME"]).exists()


def test_a_machine_without_gpg_is_told_in_one_sentence(
    dist: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        release.ReleaseError, match=r"^gpg isn't installed, .*: install GnuPG, or leave --sign out\.$"
    ):
        release.sign([dist / "tailrace-0.1.0.tar.gz"], "key", os.environ)


def test_two_builds_that_differ_are_told_by_file_and_entry(dist: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    release_files.write(again)
    for folder in (dist, again):
        # Its time is that of the build, as zipfile and tarfile take it by themselves.
        for file in (*folder.rglob("*.jar"), *folder.glob("*.tar.gz")):
            file.write_bytes(b"same")
    assert release.differences(dist, again) == []
    with zipfile.ZipFile(again / "tailrace-0.1.0-py3-none-any.whl", "a") as wheel:
        wheel.writestr("more.py", "")
    (again / f"{MAVEN}.pom").unlink()
    assert release.differences(dist, again) == [
        f"{MAVEN}.pom (only in one)",
        "tailrace-0.1.0-py3-none-any.whl (entries more.py)",
    ]


def test_pip_takes_packages_from_the_index_on_loopback(tmp_path: Path) -> None:
    site = tmp_path / "site"
    metadata = "Metadata-Version: 2.1\nName: Small.Fake\nVersion: 1.2\n"
    wheel = release_files.wheel(site / "files", "small_fake", "1.2", metadata)
    rehearse.write_index(site)
    assert (site / "simple" / "small-fake" / "index.html").is_file()
    environ = {
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    with rehearse.served(site) as url:
        line = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-cache-dir",
            "-d",
            str(tmp_path),
        ]
        line += ["--index-url", f"{url}/simple", "Small.Fake"]
        done = subprocess.run(line, env=environ, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
        (tmp_path / wheel.name).unlink()
        # The page has the hash of the file that the index was written for.
        wheel.write_bytes(wheel.read_bytes() + b"x")
        done = subprocess.run(line, env=environ, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert "DO NOT MATCH THE HASHES" in done.stderr


def test_the_rehearsals_machine_has_a_java_and_no_compiler(
    tmp_path: Path, fake_program: Callable[[str, str], Path]
) -> None:
    for name in ("bash", "java", "javac", "sbt"):
        path = fake_program(name, f"echo {name}")
    environ = rehearse.runtime(
        tmp_path / "one", {"PATH": str(path), "SPARK_HOME": "/spark", "PYTHONPATH": "/p"}
    )
    assert {file.name for file in Path(environ["PATH"]).iterdir()} == {"java", "bash"}
    assert not {"JAVA_HOME", "SPARK_HOME", "PYTHONPATH"} & environ.keys()
    with pytest.raises(rehearse.RehearsalError, match="needs a Java, as JAVA_HOME or on the PATH"):
        rehearse.runtime(tmp_path / "two", {"PATH": str(path), "JAVA_HOME": str(tmp_path / "none")})


def test_the_rehearsal_compares_with_what_readme_shows(repository: Path, tmp_path: Path) -> None:
    code, shown = pages.shown_example(repository, "README.md", "quickstart")
    assert rehearse._CONFIGURED in code, "which spark-submit --packages leaves out"
    assert "|[click, buy]|" in shown
    line = [sys.executable, "-c", f"print({shown!r})"]
    rehearse._example("right", line, code, shown, tmp_path / "right", os.environ)
    with pytest.raises(
        rehearse.RehearsalError, match=r"(?s)^wrong printed this, and README shows .*:\nother"
    ):
        rehearse._example(
            "wrong", [sys.executable, "-c", "print('other')"], code, shown, tmp_path / "wrong", {}
        )
    with pytest.raises(rehearse.RehearsalError, match=r"(?s)^broken failed with exit code 3: .*reason"):
        rehearse._step("broken", [sys.executable, "-c", "print('reason'); exit(3)"], tmp_path, os.environ)


def test_no_link_of_the_description_is_relative(repository: Path, readme: ModuleType) -> None:
    description = WheelBuilder(str(repository)).metadata.core.readme
    source = "https://github.com/tailrace/tailrace"
    assert readme.relative(description) == []
    assert f"]({source}/raw/v{release.version_of(repository)}/docs/images/example.svg)" in description
    assert f"]({source}/blob/v{release.version_of(repository)}/CONTRIBUTING.md)" in description
    assert len(readme.relative((repository / "README.md").read_text())) > 30
    # As twine renders it.
    page = readme_renderer.markdown.render(description)
    assert page is not None
    # Each heading has a link to itself.
    targets = re.findall(r'(?:href|src)="([^"#][^"]*)"', page)
    assert len(targets) > 30
    assert [target for target in targets if not target.startswith("https://")] == []


def test_links_of_all_shapes_become_absolute(readme: ModuleType) -> None:
    text = (
        "[a](docs/a.md#b) [`c`](./c.py) [d](https://d) [e](#e) [f](mailto:f@g)\n"
        "[![h](h.svg)](i.md)\n```python\nrow[0](x)\n```\n[j](j.md)\n"
    )
    assert readme.absolute(text, "https://r", "v1") == (
        "[a](https://r/blob/v1/docs/a.md#b) [`c`](https://r/blob/v1/c.py) "
        "[d](https://d) [e](#e) [f](mailto:f@g)\n"
        "[![h](https://r/raw/v1/h.svg)](https://r/blob/v1/i.md)\n```python\nrow[0](x)\n```\n"
        "[j](https://r/blob/v1/j.md)\n"
    )


def test_contributing_has_the_commands_and_the_files_of_a_release(
    repository: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (repository / "CONTRIBUTING.md").read_text()
    section = text.split("\n## Release\n", 1)[1].split("\n## ", 1)[0]
    commands = re.findall(r"^\.venv/bin/python dev/release\.py ([^#\n]*)", section, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        release.command_line().parse_args(shlex.split(command))
    rehearsed: list[Path] = []
    monkeypatch.setattr(release, "build", lambda _root, dist, _when: release_files.write(dist))
    monkeypatch.setattr(rehearse, "rehearse", lambda _root, dist: rehearsed.append(dist))
    (root / "dist" / VERSION).mkdir(parents=True)
    assert release.main(["--rehearsal"], root=root) == 0
    assert not list((root / "dist" / VERSION).iterdir()), "a release that is there is left as it is"
    dist = root / "dist" / f"{VERSION}-rehearsal"
    assert rehearsed == [dist]
    table = section.split("<!-- release:files -->", 1)[1].split("\n\n", 1)[0]
    named = set(re.findall(r"^\| `([^`/]+)/?` ", table, re.MULTILINE))
    assert {file.name for file in dist.iterdir() if file.suffix != ".asc"} == named
    # Each file has its signature, but the checksums of Maven.
    unsigned = {
        file.name
        for file in dist.rglob("*")
        if file.is_file() and file.suffix != ".asc" and not Path(f"{file}.asc").exists()
    }
    assert {name for name in unsigned if not name.endswith((".md5", ".sha1"))} == set()
    with zipfile.ZipFile(dist / "tailrace-0.1.0-maven.zip") as bundle:
        assert f"{MAVEN.removeprefix('maven/')}.jar.asc" in bundle.namelist()
