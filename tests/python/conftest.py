"""One real local Spark for the session, made the way a user makes it, and stand-ins for what surrounds it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql import SparkSession

import class_archive
import lakes
import local_spark
import modes
import tailrace
from browsers import run_browser
from connect_server import ConnectServer
from jvm_suites import JvmSuites
from parity import Recorder
from tailrace._bridge import jvm
from tailrace._installation import jar as _jar
from tailrace._installation.versions import series
from tailrace.testing import StreamTest
from tailrace_pytest import SETTINGS
from trees import Trees
from watermark_ledgers import Ledgers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from selenium.webdriver import Chrome

_REPOSITORY = Path(__file__).resolve().parents[2]

# Of the drivers of this process and of those that it starts: nothing runs long enough for what the second
# compiler costs, or a collector that works beside the tests. By itself, the first compiler reserves 48 MB for
# its code. A session that runs all campaigns fills them, and the JVM fails: what both reserve is enough.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseParallelGC"
)


_JVM_SUITES = pytest.StashKey[JvmSuites]()


def _is_jvm_suites(item: pytest.Item) -> bool:
    return item.path.name == "test_jvm_suites.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--parity", type=Path, metavar="FILE", help="for the public names that the tests use")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.parity:
        config.pluginmanager.register(Recorder(config.option.parity))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The JVM suites take minutes: what fails in seconds is told first.
    items.sort(key=_is_jvm_suites)
    if modes.CONNECT:
        items[:], others = modes.over_connect(items)
        config.hook.pytest_deselected(items=others)
    if not _names_tests(config):
        # Campaigns and slow tests have to be asked for; and so has a long test in a file of campaigns.
        asked = config.option.markexpr
        unasked = ("campaign", "guard", "long", "slow") if not asked else () if "long" in asked else ("long",)
        left_out = [item for item in items if any(map(item.get_closest_marker, unasked))]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def _names_tests(config: pytest.Config) -> bool:
    """Whether the command line has files or names of tests."""
    return config.args_source is pytest.Config.ArgsSource.ARGS or bool(config.option.keyword)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if config.option.collectonly:
        return
    suites = next(filter(_is_jvm_suites, session.items), None)
    if isinstance(suites, pytest.Function):
        config.stash[_JVM_SUITES] = JvmSuites(_REPOSITORY, str(suites.callspec.params["command"]))
    # All tests, or many campaigns: they start dozens of JVMs with a Spark in them. Others use what is there.
    many = "campaign" in config.option.markexpr or not (_names_tests(config) or config.option.markexpr)
    options = class_archive.options(_REPOSITORY / "build" / "classes", make=many)
    if options is not None:
        os.environ["SPARK_SUBMIT_OPTS"] = options


def pytest_unconfigure(config: pytest.Config) -> None:
    if _JVM_SUITES in config.stash:
        config.stash[_JVM_SUITES].stop()


@pytest.fixture
def jvm_suites(pytestconfig: pytest.Config) -> Callable[[str], JvmSuites]:
    """The suites that a command of sbt runs. Those of the first command began with the session."""

    def of(command: str) -> JvmSuites:
        running = pytestconfig.stash[_JVM_SUITES]
        if running.command != command:
            # One sbt at a time in a folder.
            running.stop()
            pytestconfig.stash[_JVM_SUITES] = running = JvmSuites(_REPOSITORY, command)
        return running

    return of


@pytest.fixture(scope="session")
def repository() -> Path:
    return _REPOSITORY


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Python's workers are to have what the tests have, not what the first python3 of the PATH has.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if modes.CONNECT:
        with tempfile.TemporaryDirectory() as logs:
            settings = {
                **SETTINGS,
                **local_spark.INTERPRETED,
                **lakes.settings(),
                "spark.driver.memory": "2g",
            }
            server = ConnectServer(Path(logs, "server.log"), settings)
            try:
                # As a user says it once for all programs: README's find the session by it, too.
                os.environ["SPARK_REMOTE"] = server.address
                session = SparkSession.builder.getOrCreate()
                yield session
                session.stop()
            finally:
                server.stop()
    else:
        session = local_spark.start("2g", {**local_spark.INTERPRETED, **lakes.settings()})
        yield session
        session.stop()


@pytest.fixture
def stream_test(spark: SparkSession, tmp_path: Path) -> Iterator[StreamTest]:
    """Streams and queries of one test, in the session of all tests. Its clock begins at noon."""
    with StreamTest(spark, tmp_path, "12:00") as test:
        yield test


@pytest.fixture
def stopped_queries(spark: SparkSession) -> Iterator[None]:
    """Stops the queries that a test has started."""
    yield
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def trees(spark: SparkSession, tmp_path: Path) -> Trees:
    return Trees(spark, tmp_path)


@pytest.fixture
def ledgers(tmp_path: Path) -> Iterator[Ledgers]:
    """The ledgers of servers with one database."""
    with Ledgers(f"sqlite:///{tmp_path / 'w.db'}") as opened:
        yield opened


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Makes this process look as if no Spark ran in it; returns its own Spark configuration directory."""
    monkeypatch.setattr(jvm, "attached", lambda: False)
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_API_MODE"):
        monkeypatch.delenv(name, raising=False)
    conf = tmp_path / "conf"
    conf.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    return conf


@pytest.fixture
def make_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Puts a jar with a given manifest in the place of the wheel's."""

    def make(
        version: str = tailrace.__version__, spark: str = pyspark.__version__, scala: str = "2.13.18"
    ) -> Path:
        folder = tmp_path / "jars"
        folder.mkdir()
        minor = series(pyspark.__version__)
        jar = folder / f"tailrace-spark{minor}_2.13-{tailrace.__version__}.jar"
        lines = [
            "Manifest-Version: 1.0",
            f"Tailrace-Version: {version}",
            f"Tailrace-Spark-Version: {spark}",
            f"Tailrace-Scala-Version: {scala}",
        ]
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", "\r\n".join([*lines, "", ""]))
        monkeypatch.setattr(_jar, "_FOLDER", folder)
        return jar

    return make


@pytest.fixture
def fake_program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Makes a program of a given name out of a shell script, in a directory that it returns."""

    def make(name: str, script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return folder

    return make


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Loads a script of the repository by its path, as the build front ends do."""

    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, _REPOSITORY / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Spark Connect server for clients in processes of their own."""
    started = ConnectServer(tmp_path_factory.mktemp("connect") / "log", SETTINGS)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs this interpreter in a process of its own, where no Spark runs yet."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env=modes.environ_of_classic(**environ),
        )

    return run


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with run_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
