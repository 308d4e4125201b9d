"""The guide's record of windows in MLflow, in an environment of its own (dev/trainers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlflow

from landed_windows import LandedWindows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def test_a_run_has_the_windows_and_their_reports(
    defined: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    windows = LandedWindows(tmp_path / "clicks")
    windows.land(4, 3)
    windows.land(2)
    names = defined("trainers", "mlflow")
    run_id = names["train"](windows.path)
    run = mlflow.get_run(run_id)
    assert run.data.metrics == {"rows": 9}
    inputs = {one.dataset.name: one for one in run.inputs.dataset_inputs}
    assert set(inputs) == {"20260101T120000Z", "20260101T130000Z"}
    first = inputs["20260101T120000Z"]
    assert str(windows.directory(0)) in first.dataset.source
    tags = {tag.key: tag.value for tag in first.tags}
    assert (tags["rows"], tags["hosts_missing"], tags["mlflow.data.context"]) == ("7", "0", "training")
    report = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/windows/20260101T130000Z.json")
    assert (report["rows"], report["passed"]) == (2, 2)
