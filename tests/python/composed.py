"""Services of `docs/deploy/compose.yaml` as processes: their commands, mounts, variables and health checks.

A mounted path is a path below a folder of the service, and the address of a service is one on loopback.
Everything else is taken as it is written, so that a command that names a file which isn't mounted fails here
as it would in a container.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEPLOY = Path(__file__).resolve().parents[2] / "docs/deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Image:
    """What a target of the Dockerfile says of its containers."""

    entrypoint: list[str]
    check: list[str]
    user: str
    variables: dict[str, str]

    @classmethod
    def of(cls, target: str) -> Image:
        """The image of a target."""
        text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        stage = re.search(rf"^FROM \S+ AS {target}\n(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL)
        assert stage, f"the Dockerfile has no target {target}"
        check = re.search(r"^HEALTHCHECK .*?CMD (\[.*\])$", stage[1], re.MULTILINE)
        entrypoint = re.search(r"^ENTRYPOINT (\[.*\])$", stage[1], re.MULTILINE)
        assert check
        assert entrypoint
        user = re.findall(r"^USER (\S+)$", stage[1], re.MULTILINE)[-1]
        variables = " ".join(re.findall(r"^ENV (.*)$", stage[1], re.MULTILINE))
        found = dict(part.split("=", 1) for part in variables.split())
        del found["PATH"]  # that of the test
        return cls(json.loads(entrypoint[1]), json.loads(check[1]), user, found)


@dataclass(frozen=True)
class Service:
    """A service as a process.

    Attributes:
        name: its name in the compose file.
        root: the folder that its mounts are below.
        addresses: addresses of the compose file, and what they are here.
        secrets: the values of the secrets.
        program: what begins the command of an image that isn't ours.
    """

    name: str
    root: Path
    addresses: Mapping[str, str]
    secrets: Mapping[str, str]
    program: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """What the compose file says."""
        found: dict[str, Any] = COMPOSE["services"][self.name]
        return found

    def image(self) -> Image:
        """Its image, which the Dockerfile makes."""
        return Image.of(self.settings["build"]["target"])

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, until the block ends. Its output is in `log` below the root."""
        self._mount()
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                self._command(), env=self._environ(), cwd=self.root, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)

    @property
    def log(self) -> Path:
        """What it has said."""
        return self.root / "log"

    def is_healthy(self) -> bool:
        """Whether the health check of its image passes."""
        line = [sys.executable, *map(self._here, self.image().check[1:])]
        return subprocess.run(line, check=False, capture_output=True, timeout=30).returncode == 0

    def place(self, path: str) -> Path:
        """The path here of a path in the container, which has to be mounted."""
        here = Path(self._here(path))
        assert here.is_relative_to(self.root), f"{path} isn't mounted in {self.name}"
        return here

    def _command(self) -> list[str]:
        if self.program:
            line = [*self.program, *self.settings["command"]]
        else:
            line = [*self.image().entrypoint, *self.settings["command"]]
        # Nothing has to be passed on to this process's only child.
        line = line[2:] if line[0] == "tini" else line
        line = [sys.executable, "-m", *line] if line[0] == "tailrace" else line
        line = [sys.executable, *line[1:]] if line[0] == "python" else line
        return [line[0], *map(self._here, line[1:])]

    def _environ(self) -> dict[str, str]:
        given = {**({} if self.program else self.image().variables), **self.settings.get("environment", {})}
        return {**os.environ, **{name: self._here(value) for name, value in given.items()}, **self.environ}

    def _mounts(self) -> dict[str, Path | None]:
        """Each mounted path, and the file or folder there; None: an empty folder."""
        found: dict[str, Path | None] = {f"/run/secrets/{name}": None for name in self.settings["secrets"]}
        for volume in self.settings.get("volumes", ()):
            source, target = volume.split(":")[:2]
            found[target] = (DEPLOY / source).resolve() if source.startswith(".") else None
        return found

    def _mount(self) -> None:
        for target, source in self._mounts().items():
            place = self.root / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            secret = target.removeprefix("/run/secrets/")
            if secret in self.settings["secrets"]:
                place.write_text(self.secrets[secret], encoding="utf-8")
            elif source is None:
                place.mkdir()
            elif source.is_dir():
                shutil.copytree(source, place)
            else:
                place.write_text(self._here(source.read_text(encoding="utf-8")), encoding="utf-8")

    def _here(self, text: str) -> str:
        """A text of the container with what is different here."""
        for there, here in self.addresses.items():
            text = text.replace(there, here)
        for target in sorted(self._mounts(), key=len, reverse=True):
            text = re.sub(rf"(?<![\w.-]){re.escape(target)}(?![\w-])", f"{self.root}{target}", text)
        return text
