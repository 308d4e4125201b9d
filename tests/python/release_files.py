"""Small packages and a small Maven repository, in the shape of a release."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "0.1.0"
METADATA = f"""Metadata-Version: 2.4
Name: tailrace
Version: {VERSION}
Summary: Joins
License-Expression: Apache-2.0
Requires-Dist: pyarrow>=18
Requires-Dist: pyspark<4.4,>=4.1
Provides-Extra: connect
Requires-Dist: pyspark[connect]; extra == 'connect'
Provides-Extra: demo
Requires-Dist: numpy>=1.26; extra == 'demo'
Requires-Dist: tailrace[connect]; extra == 'demo'
Description-Content-Type: text/markdown

# Tailrace

[docs](https://example.org/docs)
"""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <groupId>io.tailrace</groupId><artifactId>{name}</artifactId><version>{version}</version>
  <description>Joins</description>
  <licenses><license><name>Apache-2.0</name></license></licenses>
  <dependencies>
    <dependency><groupId>org.scala-lang</groupId><artifactId>scala-library</artifactId>
      <version>2.13.18</version></dependency>
    <dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql_2.13</artifactId>
      <version>{minor}.0</version><scope>provided</scope></dependency>
    <dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql_2.13</artifactId>
      <version>{minor}.0</version><scope>test</scope><classifier>tests</classifier></dependency>
  </dependencies>
</project>
"""


def write(dist: Path, metadata: str = METADATA) -> None:
    """Writes all that `build` of dev/release.py leaves."""
    dist.mkdir(parents=True, exist_ok=True)
    wheel(dist, "tailrace", VERSION, metadata)
    with tarfile.open(dist / f"tailrace-{VERSION}.tar.gz", "w:gz") as archive:
        for name, text in {"PKG-INFO": metadata, "README.md": "# Tailrace"}.items():
            entry = tarfile.TarInfo(f"tailrace-{VERSION}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    for minor in ("4.1", "4.2", "4.3"):
        name = f"tailrace-spark{minor}_2.13"
        folder = dist / "maven" / "io" / "tailrace" / name / VERSION
        folder.mkdir(parents=True)
        pom = _POM.format(name=name, version=VERSION, minor=minor)
        (folder / f"{name}-{VERSION}.pom").write_text(pom)
        for kind in ("", "-sources", "-javadoc"):
            with zipfile.ZipFile(folder / f"{name}-{VERSION}{kind}.jar", "w") as jar:
                for text in ("LICENSE", "NOTICE"):
                    jar.writestr(f"META-INF/{text}", f"{text} of {name}{kind}")


def wheel(folder: Path, name: str, version: str, metadata: str) -> Path:
    """Writes a wheel that pip can install: a module of one line."""
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": "",
        f"{name}/jars/tailrace-spark4.2_2.13-{version}.jar": "jar",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/licenses/LICENSE": "licence",
        f"{info}/licenses/NOTICE": "notice",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(written, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return written
