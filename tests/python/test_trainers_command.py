"""`dev/trainers.py`: a system whose packages can't be installed fails, and the others are tested."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import trainers

if TYPE_CHECKING:
    import pytest


def test_the_others_are_tested_when_one_cant_be_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tested: list[str] = []

    def install(name: str) -> Path:
        if name == "torch":
            raise subprocess.CalledProcessError(1, ["pip", "install", "torch"])
        return Path(name)

    def test(name: str, _: Path) -> bool:
        tested.append(name)
        return name != "mlflow"

    monkeypatch.setattr(trainers, "install", install)
    monkeypatch.setattr(trainers, "test", test)
    assert trainers.main([]) == 1
    assert tested == ["ray", "airflow", "mlflow", "dagster", "feast"]
    assert "FAILED: torch, mlflow" in capsys.readouterr().out
    assert trainers.main(["ray"]) == 0
    assert trainers.main(["--install", "torch", "ray"]) == 1
