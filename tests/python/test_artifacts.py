"""What Maven repositories ask of the artifacts that sbt publishes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

import tailrace

if TYPE_CHECKING:
    from pathlib import Path

_MINORS = {"jvm41": "4.1", "jvm": "4.2", "jvm43": "4.3"}


@pytest.mark.campaign
def test_each_artifact_has_a_complete_pom(repository: Path) -> None:
    sbt = repository / "python" / "build_backend" / "sbt.py"
    tasks = [f"{project}/makePom" for project in _MINORS]
    done = subprocess.run(
        [sys.executable, sbt, *tasks], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for project, minor in _MINORS.items():
        target = repository / "jvm" / "target" / ("" if project == "jvm" else f"spark-{minor}")
        path = target / "scala-2.13" / f"tailrace-spark{minor}_2.13-{tailrace.__version__}.pom"
        pom = ET.fromstring(path.read_text())  # noqa: S314 - our own

        def said(*names: str, pom: ET.Element = pom) -> str | None:
            return pom.findtext("/".join(f"{{*}}{name}" for name in names))

        assert said("groupId") == "io.tailrace"
        assert said("artifactId") == f"tailrace-spark{minor}_2.13"
        assert said("version") == tailrace.__version__
        assert said("licenses", "license", "name") == "Apache-2.0"
        assert (said("description") or "").endswith(f"of Spark {minor}")
        for names in (
            ("name",),
            ("url",),
            ("scm", "url"),
            ("scm", "connection"),
            ("developers", "developer", "name"),
            ("developers", "developer", "url"),
        ):
            assert said(*names), names
        # Spark is for the user to bring, in the version that this is compiled against, whoever has its jars.
        sparks = [
            one
            for one in pom.iterfind(".//{*}dependency")
            if one.findtext("{*}groupId") == "org.apache.spark"
        ]
        provided = {
            one.findtext("{*}artifactId"): one.findtext("{*}version")
            for one in sparks
            if one.findtext("{*}scope") == "provided"
        }
        assert set(provided) == {"spark-sql_2.13", "spark-connect_2.13"}
        assert all((version or "").startswith(f"{minor}.") for version in provided.values())
