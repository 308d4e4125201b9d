"""Names in docstrings and in the README exist: classes and packages of the jar, metrics, conditions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import pages

if TYPE_CHECKING:
    from pathlib import Path

SCALA = "jvm/src/main/scala"
CONDITIONS = "jvm/src/main/resources/error/tailrace-error-conditions.json"

# Names of Spark's that the documents mention: of its progress, its triggers and its functions.
OF_SPARK = {
    "endingOffsets",
    "startingOffsets",
    "startingTimestamp",
    "startingVersion",
    "versionAsOf",
    "maxFilesPerTrigger",
    "endOffset",
    "allRemovalsTimeMs",
    "allUpdatesTimeMs",
    "applyInPandasWithState",
    "asyncProgressTrackingEnabled",
    "availableNow",
    "awaitTermination",
    "checkpointLocation",
    "createDataFrame",
    "createOrReplaceTempView",
    "customMetrics",
    "dropDuplicates",
    "foreachBatch",
    "groupBy",
    "mapGroups",
    "maxBytesPerTrigger",
    "minPartitions",
    "maxOffsetsPerTrigger",
    "memoryUsedBytes",
    "numRowsDroppedByWatermark",
    "numRowsRemoved",
    "numRowsTotal",
    "numRowsUpdated",
    "numShufflePartitions",
    "observedMetrics",
    "partitionBy",
    "processAllAvailable",
    "processingTime",
    "stateOperators",
    "stateVarName",
    "transformWithState",
    "withColumn",
    "withColumnRenamed",
    "withWatermark",
}


@pytest.fixture(scope="module")
def documents(repository: Path) -> dict[str, str]:
    files = [*pages.written(repository), *sorted((repository / "python/tailrace").glob("*.py"))]
    return {file.relative_to(repository).as_posix(): file.read_text() for file in files}


@pytest.fixture(scope="module")
def scala(repository: Path) -> str:
    return "\n".join(file.read_text() for file in sorted((repository / SCALA).rglob("*.scala")))


def test_names_of_the_jar_exist(repository: Path, documents: dict[str, str], scala: str) -> None:
    texts = {**documents, "conditions": (repository / CONDITIONS).read_text()}
    found = {
        (file, name)
        for file, text in texts.items()
        for name in re.findall(r"io(?:\.tailrace)(?:\.\w+)+", text)
    }
    assert found
    for file, name in sorted(found):
        folder, last = (repository / SCALA / name.replace(".", "/")), name.rsplit(".", 1)[-1]
        is_class = re.search(rf"\b(?:class|object|trait) {last}\b", scala) is not None
        assert folder.is_dir() or is_class, f"{file}: {name}"


def test_metrics_exist(documents: dict[str, str], scala: str) -> None:
    texts = set(re.findall(r'"(\w+)"', scala)) | OF_SPARK
    for file, text in documents.items():
        # The names of other engines are in the first column of their tables.
        ours = re.sub(r"(?m)^\|.*?(?<!\\)\|", "", text) if "/coming-from/" in file else text
        for name in re.findall(r"`([a-z]+(?:[A-Z][a-z0-9]+)+)`", ours):
            assert name in texts, f"{file}: {name}"


def test_progress_has_the_names_that_are_documented(documents: dict[str, str], scala: str) -> None:
    operators = set(re.findall(r'ProgressName\("(\w+)"', scala)) | set(
        re.findall(r'"tailrace\.(\w+)"', scala)
    )
    for file, text in documents.items():
        for name in re.findall(r'observedMetrics\["tailrace\.(\w+)"\]', text):
            assert name in operators, f"{file}: {name}"
        assert not re.findall(r'observedMetrics\["(?!tailrace\.)', text), file


def test_conditions_exist(repository: Path, documents: dict[str, str], scala: str) -> None:
    conditions = set(json.loads((repository / CONDITIONS).read_text()))
    # Warnings have names, too, and no text of their own; so have environment variables and errors of Python.
    known = conditions | set(re.findall(r"(TAILRACE_[A-Z_]+):", scala))
    python = "".join(file.read_text() for file in (repository / "python/tailrace").rglob("*.py"))
    known |= set(re.findall(r'"(TAILRACE_[A-Z_]+)"', python))
    for file, text in documents.items():
        for name in re.findall(r"TAILRACE_[A-Z]+(?:_[A-Z]+)+\b(?!_|\*|[{=])", text):
            assert name in known, f"{file}: {name}"


def test_a_watermark_reaches_a_time_and_never_passes_it(repository: Path) -> None:
    """It reaches a time (>=), as the glossary says. Hosts pass one, and the sync time passes a row (>)."""
    sources = [
        *pages.written(repository),
        *(repository / "python/tailrace").rglob("*.py"),
        *(repository / "docs/images").glob("*.svg"),
        *(repository / SCALA).rglob("*.scala"),
        repository / CONDITIONS,
    ]
    passes = re.compile(r"watermark[\s*]+((has|had|hasn't|have)[\s*]+)?pass(ed|es)\b(?! look)")
    found = [(file.name, one[0]) for file in sources for one in passes.finditer(file.read_text())]
    assert len(sources) > 300
    assert found == []
    glossary = (repository / "docs/glossary.md").read_text()
    assert all(f"| {word} | " in glossary for word in ("to reach", "to pass"))
