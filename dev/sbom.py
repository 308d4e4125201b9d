"""Bills of materials in CycloneDX: one for the wheel, and one for each jar of the Maven repository.

A bill has the component with its licence and hashes, the dependencies that it declares, and of the wheel the
jars in it. The same files give the same bill: its time is that of the commit, and its serial number follows
from the component's hash. Needs the extra `release`.
"""

from __future__ import annotations

import email
import hashlib
import uuid
import zipfile
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path


def of_wheel(wheel: Path, when: datetime) -> str:
    """The bill of a wheel, whose METADATA has the dependencies: those of an extra are optional.

    Raises:
        ValueError: the file is no wheel.
    """
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        if len(found) != 1:
            raise ValueError(f"{wheel} is no wheel: it has {len(found)} files METADATA.")
        metadata = email.message_from_bytes(archive.read(found[0]))
        jars = [
            Component(name=name, type=ComponentType.FILE, bom_ref=name, hashes=_hashes(archive.read(name)))
            for name in sorted(archive.namelist())
            if name.startswith("tailrace/jars/")
        ]
    purl = PackageURL("pypi", name=metadata["Name"], version=metadata["Version"])
    component = Component(
        name=metadata["Name"],
        version=metadata["Version"],
        bom_ref=purl.to_string(),
        description=metadata["Summary"],
        licenses=[LicenseExpression(metadata["License-Expression"])],
        hashes=_hashes(wheel.read_bytes()),
        purl=purl,
        components=jars,
    )
    required = [Requirement(one) for one in metadata.get_all("Requires-Dist") or []]
    others = [one for one in required if one.name != metadata["Name"]]
    return _bill(component, _of_requirements(others), when)


def of_jar(jar: Path, pom: Path, when: datetime) -> str:
    """The bill of a jar, whose POM has the dependencies: users bring those that are `provided`.

    Raises:
        ValueError: the POM has no licence, or not all of its coordinates.
    """
    project = ET.fromstring(pom.read_text(encoding="utf-8"))  # noqa: S314 - sbt has just written it
    group, name, version, licence = (
        project.findtext(path)
        for path in ("{*}groupId", "{*}artifactId", "{*}version", "{*}licenses/{*}license/{*}name")
    )
    if not group or not name or not version or not licence:
        raise ValueError(f"{pom} lacks groupId, artifactId, version or the licence's name.")
    purl = PackageURL("maven", group, name, version)
    component = Component(
        group=group,
        name=name,
        version=version,
        bom_ref=purl.to_string(),
        description=project.findtext("{*}description"),
        licenses=[LicenseExpression(licence)],
        hashes=_hashes(jar.read_bytes()),
        purl=purl,
    )
    # The POM has test dependencies, too, which no user gets.
    declared = [
        one for one in project.iterfind("{*}dependencies/{*}dependency") if one.findtext("{*}scope") != "test"
    ]
    return _bill(component, [_of_dependency(one) for one in declared], when)


def _of_requirements(required: Sequence[Requirement]) -> list[Component]:
    """A component for each package, with all requirements of it: several extras may name one."""
    by_name: dict[str, list[Requirement]] = {}
    for one in required:
        by_name.setdefault(one.name, []).append(one)
    return [
        Component(
            name=name,
            bom_ref=f"pkg:pypi/{name}",
            scope=ComponentScope.OPTIONAL if all(map(_of_extra, ones)) else ComponentScope.REQUIRED,
            purl=PackageURL("pypi", name=name),
            properties=[Property(name="tailrace:requirement", value=str(one)) for one in ones],
        )
        for name, ones in by_name.items()
    ]


def _of_extra(one: Requirement) -> bool:
    return one.marker is not None and "extra" in str(one.marker)


def _of_dependency(one: ET.Element) -> Component:
    group, name, version = (
        one.findtext(f"{{*}}{part}") or "" for part in ("groupId", "artifactId", "version")
    )
    purl = PackageURL("maven", group, name, version)
    return Component(
        group=group,
        name=name,
        version=version,
        bom_ref=purl.to_string(),
        scope=ComponentScope.REQUIRED,
        purl=purl,
        properties=[Property(name="tailrace:maven-scope", value=one.findtext("{*}scope") or "compile")],
    )


def _bill(component: Component, dependencies: Sequence[Component], when: datetime) -> str:
    content = "".join(sorted(one.content for one in component.hashes))
    bill = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{component.purl}#{content}"),
        metadata=BomMetaData(component=component, timestamp=when),
        components=dependencies,
    )
    bill.register_dependency(component, dependencies)
    return JsonV1Dot6(bill).output_as_string(indent=2) + "\n"


def _hashes(content: bytes) -> list[HashType]:
    kinds = {HashAlgorithm.SHA_256: "sha256", HashAlgorithm.SHA_512: "sha512"}
    return [
        HashType(alg=kind, content=hashlib.new(name, content).hexdigest()) for kind, name in kinds.items()
    ]
