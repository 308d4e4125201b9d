"""The wheel's hooks: a jar for each Spark that TAILRACE_SPARK names, and a dependency on pyspark of these.

`TAILRACE_SPARK=4.3 pip install .` makes the one for Spark 4.3, TAILRACE_SPARK=all those for all. Without it
there is one, for the default. sbt builds them, and they are added as tailrace/jars/tailrace-spark4.2_2.13-...
pyproject.toml binds the build hook to the wheel alone, so building an sdist runs neither Java nor sbt.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

if TYPE_CHECKING:
    from types import ModuleType


class DynamicMetadataHook(MetadataHookInterface):
    """Sets the dependencies, of which pyspark depends on TAILRACE_SPARK, and the README with absolute links.

    pyproject.toml has the others, and the README's name, in `[tool.hatch.metadata.hooks.custom]`.
    """

    PLUGIN_NAME = "tailrace-metadata"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when it reads the metadata.

        Args:
            metadata: the table `project` with its version, which gains `dependencies` and `readme`.
        """
        written = Path(self.root, self.config["readme"]).read_text(encoding="utf-8")
        repository, tag = metadata["urls"]["Source"], f"v{metadata['version']}"
        text = _script("readme").absolute(written, repository, tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        sparks = _script("sparks")
        try:
            minors = sparks.chosen(os.environ)
        except sparks.SparkError as error:
            raise SystemExit(f"tailrace: {error}") from error
        metadata["dependencies"] = [*self.config["dependencies"], sparks.requirement(minors)]


class JarBuildHook(BuildHookInterface[Any]):
    """Checks the JDK, has sbt package a jar for each Spark, and adds them to the wheel."""

    PLUGIN_NAME = "tailrace-jar"

    def dependencies(self) -> list[str]:
        """The packages that pip installs for the build.

        That is pyspark, whose Ivy resolves sbt's launcher, if that is missing: 400 MB, which take a fifth of
        the build's time. And pip itself, if it has to install a pyspark to compile against.
        """
        sbt, sparks = _script("sbt"), _script("sparks")
        minors = sparks.chosen(os.environ)
        pip = ["pip"] if sparks.missing(minors, sbt.sparks_directory(os.environ)) else []
        return [*pip, sparks.requirement(minors[-1:])] if sbt.needs_ivy(os.environ) else pip

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files.

        Args:
            version: "standard", or "editable" for `pip install -e`.
            build_data: hatchling's instructions for this wheel; `force_include` gains the jars.
        """
        sbt, sparks, built = _script("sbt"), _script("sparks"), _script("jars")
        try:
            # First, and alone: a machine without a JDK fails before anything is downloaded or built.
            sbt.check_java(os.environ)
            minors = sparks.chosen(os.environ)
            self._check_requirement(sparks.requirement(minors))
            # The default first: its jar is whole in a wheel for several.
            minors.sort(key=lambda minor: minor != sparks.DEFAULT)
            jars = {minor: self._target(sparks.jar_name(minor, self.metadata.version)) for minor in minors}
            # A second `pip install` of the same checkout, such as one with an extra, has nothing to compile.
            sources = built.digest(Path(self.root))
            stale = [minor for minor in minors if not built.is_current(jars[minor], sources)]
            tasks = [f"{sparks.project(minor)}/package" for minor in stale]
            status = sbt.run(tasks) if tasks else 0
        except (sbt.SbtError, sparks.SparkError) as error:
            self.app.abort(f"tailrace: {error}")
        if status != 0:
            self.app.abort(
                f"tailrace: `sbt {' '.join(tasks)}` failed with exit code {status}; its output is above."
            )
        files = self._files(list(jars.values()))
        for minor in stale:
            built.note(jars[minor], sources)
        if version == "editable":
            # An editable install imports the package from the checkout, so exactly these jars have to be
            # there: pip has just received the versions of Spark that they are for.
            folder = Path(self.root, "python", "tailrace", "jars")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file in files:
                shutil.copy2(file, folder)
        else:
            build_data["force_include"].update({str(file): f"tailrace/jars/{file.name}" for file in files})

    def _target(self, name: str) -> Path:
        return Path(self.root, "jvm", "target", name)

    def _files(self, jars: list[Path]) -> list[Path]:
        """The first of the jars, and patches that make the others of it: most of their classes are equal."""
        for jar in jars:
            if not jar.is_file():
                self.app.abort(f"tailrace: sbt ended well but left no jvm/target/{jar.name}.")
        patches = _load(Path(self.root, "python", "tailrace", "_installation", "jar_patch.py"))
        for jar in jars[1:]:
            patches.write(jars[0], jar, jar.with_suffix(".patch"))
        return [jars[0], *(jar.with_suffix(".patch") for jar in jars[1:])]

    def _check_requirement(self, wanted: str) -> None:
        """An sdist's PKG-INFO has the dependencies of its wheel, which TAILRACE_SPARK doesn't change."""
        written = next(one for one in self.metadata.core.dependencies if one.startswith("pyspark"))
        if sorted(written.removeprefix("pyspark").split(",")) != sorted(
            wanted.removeprefix("pyspark").split(",")
        ):
            self.app.abort(
                f"tailrace: this source distribution requires {written}, and jars for {wanted} are wanted: "
                "set TAILRACE_SPARK to what it was made with, or build from a clone."
            )


def _script(name: str) -> ModuleType:
    return _load(Path(__file__).with_name(f"{name}.py"))


def _load(path: Path) -> ModuleType:
    """Loads a file by its path: hatchling runs hooks so too, with no package around them."""
    spec = importlib.util.spec_from_file_location(f"tailrace_build_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
