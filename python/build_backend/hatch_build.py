"""The wheel's build hook: builds the jar with sbt and adds it as tailrace/jars/tailrace-<version>.jar.

pyproject.toml binds it to the wheel alone, so building an sdist runs neither Java nor sbt.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from types import ModuleType


class JarBuildHook(BuildHookInterface[Any]):
    """Checks the JDK, runs `sbt jvm/package`, and adds the jar to the wheel."""

    PLUGIN_NAME = "tailrace-jar"

    def dependencies(self) -> list[str]:
        """What pip installs for the build: pyspark, whose Ivy resolves sbt's launcher, if that is missing.

        That is 400 MB, which take a fifth of the build's time.
        """
        if not _sbt_module().needs_ivy(os.environ):
            return []
        return [needed for needed in self.metadata.core.dependencies if needed.startswith("pyspark")]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files.

        Args:
            version: "standard", or "editable" for `pip install -e`.
            build_data: hatchling's instructions for this wheel; `force_include` gains the jar.
        """
        sbt = _sbt_module()
        try:
            # First, and alone: a machine without a JDK hears of it before anything is downloaded or built.
            sbt.check_java(os.environ)
            status = sbt.run(["jvm/package"])
        except sbt.SbtError as error:
            self.app.abort(f"tailrace: {error}")
        if status != 0:
            self.app.abort(
                f"tailrace: `sbt jvm/package` failed with exit code {status}; its output is above."
            )
        name = f"tailrace-{self.metadata.version}.jar"
        jar = Path(self.root, "jvm", "target", name)
        if not jar.is_file():
            self.app.abort(f"tailrace: sbt ended well but left no jvm/target/{name}.")
        if version == "editable":
            # An editable install imports the package from the checkout, so the jar has to lie there.
            folder = Path(self.root, "python", "tailrace", "jars")
            folder.mkdir(exist_ok=True)
            shutil.copy2(jar, folder / name)
        else:
            build_data["force_include"][str(jar)] = f"tailrace/jars/{name}"


def _sbt_module() -> ModuleType:
    """Loads sbt.py next to this file: hatchling runs hooks by path, with no package around them."""
    spec = importlib.util.spec_from_file_location("tailrace_build_sbt", Path(__file__).with_name("sbt.py"))
    if spec is None or spec.loader is None:
        raise FileNotFoundError("python/build_backend/sbt.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
