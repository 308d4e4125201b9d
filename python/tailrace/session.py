"""Makes a Spark session builder ready for Tailrace, without losing what its user has set."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession, is_remote

from tailrace._bridge import arguments
from tailrace._installation import rocksdb_memory
from tailrace._installation.jar import jar_path
from tailrace._installation.java import JavaUnusableError, locate_java
from tailrace._installation.user_settings import conf_dir, launch_settings
from tailrace.errors import TailraceSessionError

EXTENSION = "io.tailrace.TailraceExtensions"

# The class of a Spark Connect server.
RELATIONS = "io.tailrace.connect.TailraceRelations"

_RELATIONS = "spark.connect.extensions.relation.classes"
_JARS = "spark.jars"
_EXTENSIONS = "spark.sql.extensions"
_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_FILE_MANAGER_CLASS = "io.tailrace.checkpoint.TailraceFileManager"


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Adds Tailrace's jar and settings to a session builder, and returns the builder.

        spark = tailrace.configure(SparkSession.builder.appName("examples")).getOrCreate()

    Adds the wheel's jar to `spark.jars` and `io.tailrace.TailraceExtensions` to `spark.sql.extensions`, after
    existing entries (in the builder, in spark-defaults.conf, in PYSPARK_SUBMIT_ARGS).
    `spark.sql.streaming.checkpointFileManagerClass`, unless you have set it, becomes Tailrace's: it writes
    checkpoints on local disks without the processes that Spark starts for each file there, and leaves all
    others to Spark. Spark's own stateful operators keep the state store provider that you have chosen for
    them. If that is RocksDB, its memory is bounded, unless you have set
    `spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage` or `...maxMemoryUsageMB` yourself: to half of
    what `spark.executor.memoryOverhead` leaves beside Tailrace's block cache, or in local mode to Spark's
    500 MiB. Nothing else is changed. A second call has no effect. It doesn't start Spark.

    Args:
        builder: `SparkSession.builder`, with any options of your own; those set later, with the same
            names, would replace these.

    Raises:
        TailraceSessionError: there is no Java; or Spark is running in this process already without the jar or
            the extension, neither of which can be added to it. The message says what to do instead.
        TailraceVersionError: Spark is running in this process already, and its version or its jar's don't
            fit.
        TypeError: `builder` isn't a session builder.
    """
    remote = _remote(builder)
    if remote is not None and not remote.startswith("local"):
        # The server was started with Tailrace's jar and settings, or the first call reports the missing ones.
        return builder
    if not isinstance(builder, SparkSession.Builder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"`builder` must be SparkSession.builder, not {type(builder).__name__}."
            f"{' Call configure before getOrCreate().' if arguments.is_session(builder) else ''}"
        )
    jar = str(jar_path())
    given = builder._options  # pyright: ignore[reportPrivateUsage]
    known = {**_settings_outside(jar), **{name: str(value) for name, value in given.items()}}
    builder.config(_JARS, _with_jar(known.get(_JARS, ""), jar))
    builder.config(_EXTENSIONS, _appended(known.get(_EXTENSIONS, ""), EXTENSION))
    if remote is not None:
        builder.config(_RELATIONS, _appended(known.get(_RELATIONS, ""), RELATIONS))
    if not known.get(_FILE_MANAGER):
        builder.config(_FILE_MANAGER, _FILE_MANAGER_CLASS)
    for name, value in rocksdb_memory.bounds(known).items():
        builder.config(name, value)
    return builder


def server_settings() -> dict[str, str]:
    """The settings, besides the jar, that a Spark Connect server needs for Tailrace."""
    return {_EXTENSIONS: EXTENSION, _RELATIONS: RELATIONS, _FILE_MANAGER: _FILE_MANAGER_CLASS}


def _settings_outside(jar: str) -> dict[str, str]:
    """The user's settings outside the builder; refuses a JVM that can't be brought to run Tailrace."""
    # A client of Spark Connect may have no py4j.
    from tailrace._bridge import jvm

    if jvm.attached():
        if not jvm.has_jar():
            raise TailraceSessionError(jvm.missing_jar())
        settings, session = jvm.settings(), jvm.running_session()
        if session is not None:
            jvm.check_session(session)
        return settings
    _check_java()
    launch = launch_settings(os.environ)
    submitted = launch.submit.get(_JARS)
    # spark-submit makes the class path out of these arguments alone, so the builder's jar would not be on it.
    if submitted is not None and not _names_jar(submitted, jar):
        raise TailraceSessionError(
            f"PYSPARK_SUBMIT_ARGS sets the jars ({submitted}), which wins over the builder's: add "
            f"Tailrace's jar there, --jars {_with_jar(submitted, jar)}, or name your jars in spark.jars of "
            "the builder."
        )
    return launch.merged()


def _check_java() -> None:
    """Refuses a machine without Java. pyspark would only say that its gateway process has exited."""
    if (conf_dir(os.environ) / "spark-env.sh").is_file():
        # It may set JAVA_HOME for Spark alone.
        return
    try:
        locate_java(os.environ)
    except JavaUnusableError as error:
        raise TailraceSessionError(str(error)) from error


def _remote(builder: object) -> str | None:
    """The address of the Spark Connect server that a builder makes a session of; None: a classic session.

    "local[2]" and the like: pyspark starts a server with the builder's settings in this process.
    """
    options = getattr(builder, "_options", {})
    address = options.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if address is not None:
        return str(address)
    mode = str(options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))).lower()
    if mode == "connect":
        return str(options.get("spark.master", os.environ.get("MASTER", "local")))
    return "sc://" if is_remote() else None


def _with_jar(jars: str, jar: str) -> str:
    return jars if _names_jar(jars, jar) else _appended(jars, jar)


def _names_jar(jars: str, jar: str) -> bool:
    # By file name: the same jar under another path, say on HDFS, must not be added twice, which Spark
    # refuses.
    name = jar.replace("\\", "/").rpartition("/")[2]
    return any(entry.strip().rpartition("/")[2] == name for entry in jars.split(","))


def _appended(entries: str, entry: str) -> str:
    present = [part.strip() for part in entries.split(",") if part.strip()]
    return ",".join(present if entry in present else [*present, entry])
