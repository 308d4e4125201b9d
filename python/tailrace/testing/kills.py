"""Processes that run a pipeline and are killed at a step of its checkpoint, as by kill -9."""

from __future__ import annotations

import inspect
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pyspark import cloudpickle

from tailrace._bridge import calls

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import ModuleType, TracebackType

    from pyspark.sql import SparkSession

    from tailrace.testing.trial import Pieces

# The module has no types.
_PICKLE: Any = cloudpickle
_LONGEST_SECONDS = 300
# A container whose first process reaps nobody keeps the dead in their group.
_LONGEST_DEATH_SECONDS = 5
_LAST_WORDS = 3000
# Settings of one run of Spark. The next run sets its own.
_OF_A_RUN = (
    *("spark.app.", "spark.connect.", "spark.driver.host", "spark.driver.port", "spark.executor.id"),
    *("spark.remote", "spark.submit."),
)
# These make PySpark a client of Spark Connect. A process that is killed needs its own Spark.
_OF_A_CLIENT = ("SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")


class KilledProcesses:
    """Starts a process for each run of a pipeline.

    The Spark of the next one starts meanwhile: that takes longest.

    Args:
        spark: the session whose settings they get.
        directory: of their input and output.
        pieces: the pipeline, the schemas of its streams, and the batches.
        settings: further ones.

    Raises:
        ValueError: the pieces can't be sent to another process.
    """

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        pieces: Pieces,
        settings: Mapping[str, str],
    ) -> None:
        self._directory = directory
        self._log = directory / "processes.log"
        self._upcoming: subprocess.Popen[bytes] | None = None
        (directory / "pieces").write_bytes(_sent(pieces, type(spark)))
        known = calls.settings(spark).items()
        kept = {name: value for name, value in known if not name.startswith(_OF_A_RUN)}
        whole = kept | {"spark.ui.enabled": "false"} | dict(settings)
        (directory / "settings.json").write_text(json.dumps(whole))

    def run(self, root: Path, step: int) -> list[str]:
        """Runs the pipeline to its end in a new directory, with a kill at a step if there are as many steps.

        Returns:
            The steps until the kill, or to the end.

        Raises:
            RuntimeError: a process fails.
            TimeoutError: a process doesn't end.
        """
        root.mkdir()
        # Beside the run's directory, which is the user's.
        told = root.with_name(f"{root.name}.process")
        told.mkdir()
        order = {"root": str(root), "step": step, "told": str(told)}
        reached, ended = told / "reached", told / "ended"
        self._run_one(order, reached, ended)
        if not reached.exists():
            return ended.read_text().splitlines()
        self._run_one({**order, "step": None}, ended)
        return reached.read_text().splitlines()

    def _run_one(self, order: Mapping[str, Any], *until: Path) -> None:
        """Lets a process do its work, and kills it when one of the files exists."""
        process, self._upcoming = self._upcoming or self._started(), self._started()
        try:
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            with suppress(BrokenPipeError):  # it has died already: its output is reported below
                process.stdin.write(f"{json.dumps(order)}\n".encode())
            end = time.monotonic() + _LONGEST_SECONDS
            while not any(file.exists() for file in until):
                if time.monotonic() > end:
                    late = f"isn't at its end after {_LONGEST_SECONDS} seconds"
                    raise TimeoutError(f"{_name(order)} {late}{self._words()}")
                # It may have ended successfully a moment ago.
                if process.poll() is not None and not any(file.exists() for file in until):
                    raise RuntimeError(f"{_name(order)} has failed{self._words()}")
                time.sleep(0.01)
        finally:
            kill_group(process)

    def _words(self) -> str:
        return f". Its last words in {self._log}:\n{self._log.read_text(errors='replace')[-_LAST_WORDS:]}"

    def _started(self) -> subprocess.Popen[bytes]:
        paths = [os.path.abspath(path) for path in sys.path]  # noqa: PTH100 - "" is the working directory
        kept = {name: value for name, value in os.environ.items() if name not in _OF_A_CLIENT}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tailrace.testing.killed", str(self._directory)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # A group of its own: the JVM is a child of the Python process, and both die at once.
                start_new_session=True,
                env={"SPARK_LOCAL_IP": "127.0.0.1", **kept, "PYTHONPATH": os.pathsep.join(paths)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._upcoming is not None:
            kill_group(self._upcoming)


def _name(order: Mapping[str, Any]) -> str:
    if order["step"] is None:
        return "the process that goes on after a kill"
    return "the process of the pipeline"


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process's group, as by kill -9. The process and its JVM have ended afterwards."""
    # The errors when nothing of it is left, on Linux and macOS.
    with suppress(ProcessLookupError, PermissionError):
        end = time.monotonic() + _LONGEST_DEATH_SECONDS
        while time.monotonic() < end:
            os.killpg(process.pid, signal.SIGKILL)
            # A dying JVM could execute its last step on the same checkpoint as the next process.
            process.wait()
            time.sleep(0.005)
    if process.stdin is not None:
        process.stdin.close()


def _sent(pieces: Pieces, session: type[SparkSession]) -> bytes:
    """The pipeline for another process: by its name if its module can be imported, otherwise by its code."""

    def refused(_: SparkSession) -> NoReturn:
        # A Spark Connect session would be pickled, and not be found there.
        raise TypeError("cannot pickle a session")

    module = inspect.getmodule(pieces[0])
    by_code = module is not None and not _is_found(module)
    if by_code:
        _PICKLE.register_pickle_by_value(module)
    try:
        file = io.BytesIO()
        base = _PICKLE.CloudPickler
        # A pickler reads its table when it is made: only a subclass can have another one.
        table = base.dispatch_table.new_child({session: refused})
        type("SessionlessPickler", (base,), {"dispatch_table": table})(file).dump(pieces)
    except Exception as error:
        raise ValueError(
            f"the pipeline can't be sent to another process ({type(error).__name__}: {error}): let it make "
            "what it needs itself, and take the session from one of its DataFrames: `clicks.sparkSession`"
        ) from error
    finally:
        if by_code:
            _PICKLE.unregister_pickle_by_value(module)
    return file.getvalue()


def _is_found(module: ModuleType) -> bool:
    """True if an import finds it. pytest's import mode "importlib" has tests that no import finds."""
    path, origin = None, None
    for part in module.__name__.split("."):
        found = PathFinder.find_spec(part, path)
        if found is None:
            return False
        path, origin = found.submodule_search_locations, found.origin
    return origin == getattr(module, "__file__", None)
