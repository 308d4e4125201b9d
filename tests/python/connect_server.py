"""A Spark Connect server as users start one: a process of its own, on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tailrace import jar_path
from tailrace.session import server_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTUP_SECONDS = 120


def _searched() -> list[str]:
    """Another version of Spark is found by it."""
    before = os.environ.get("PYTHONPATH")
    return [before] if before else []


class ConnectServer:
    """Runs until `stop`.

    Args:
        log: where its output goes.
        settings: further ones.
        has_tailrace: whether it has the jar and the settings of Tailrace.
    """

    def __init__(self, log: Path, settings: Mapping[str, str], *, has_tailrace: bool = True) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        all_settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            **(server_settings() if has_tailrace else {}),
            **settings,
        }
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-submit"), "--class", _CLASS, "--name", "tailrace tests"]
        jars = [str(jar_path())] if has_tailrace else []
        jars += filter(None, [all_settings.pop("spark.jars", None)])
        if jars:
            command += ["--jars", ",".join(jars)]
        for name, value in all_settings.items():
            command += ["--conf", f"{name}={value}"]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    # Else its workers are the first python3 of the PATH, which may have no pyspark.
                    "PYSPARK_PYTHON": sys.executable,
                    # Functions of the tests run in its Python, which finds their modules here.
                    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *_searched()]),
                },
            )
        self._log = log
        self._wait()

    @property
    def address(self) -> str:
        """As `SparkSession.builder.remote` takes it."""
        return f"sc://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of its JVM, which `spark-submit` becomes."""
        return self._process.pid

    def _wait(self) -> None:
        until = time.monotonic() + _STARTUP_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        self.stop()
        raise RuntimeError(f"no Spark Connect server: {self._log.read_text()[-3000:]}")

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait(60)
