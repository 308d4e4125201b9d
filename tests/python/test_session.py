from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tailrace
from tailrace import TailraceSessionError
from tailrace._installation import rocksdb_memory
from tailrace.session import EXTENSION, RELATIONS

PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"

MakeJar = Callable[..., Path]
RunPython = Callable[..., subprocess.CompletedProcess[str]]


def options(builder: SparkSession.Builder) -> dict[str, Any]:
    return dict(builder._options)


@pytest.mark.usefixtures("no_jvm")
class TestBuilder:
    def test_a_bare_builder_gets_all_three(self, make_jar: MakeJar) -> None:
        jar = make_jar()
        builder = SparkSession.builder
        assert tailrace.configure(builder) is builder
        assert options(builder) == {
            "spark.jars": str(jar),
            "spark.sql.extensions": EXTENSION,
            FILE_MANAGER_KEY: "io.tailrace.checkpoint.TailraceFileManager",
            rocksdb_memory.BOUNDED: "true",
            rocksdb_memory.MOST_MB: "128",
        }

    def test_a_machine_without_java_is_told_in_one_sentence(
        self, make_jar: MakeJar, no_jvm: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_jar()
        monkeypatch.setenv("PATH", str(no_jvm))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(TailraceSessionError) as refused:
            tailrace.configure(SparkSession.builder)
        assert str(refused.value) == (
            "Java wasn't found: install a JDK 17 or newer and put it on the PATH, or set JAVA_HOME to it."
        )
        # It may set JAVA_HOME for what Spark starts.
        (no_jvm / "spark-env.sh").touch()
        tailrace.configure(SparkSession.builder)

    @pytest.mark.parametrize(
        ("given", "most"),
        [
            ({"spark.executor.memory": "16g"}, "755"),
            ({"spark.executor.memory": "4096", "spark.executor.memoryOverheadFactor": "0.4"}, "755"),
            ({"spark.executor.memoryOverhead": "2g"}, "960"),
            ({"spark.executor.memoryOverhead": "1000"}, "436"),
            ({"spark.executor.memoryOverhead": "1g", "spark.tailrace.state.blockCacheBytes": "512m"}, "256"),
            ({"spark.executor.memoryOverhead": "100m"}, "64"),
            ({"spark.executor.memory": "lots"}, "128"),
            ({rocksdb_memory.MOST_MB: "700"}, "700"),
            ({"spark.master": "local[4]"}, None),
        ],
    )
    def test_sparks_rocksdb_gets_half_of_the_memory_beside_the_heap(
        self, make_jar: MakeJar, given: dict[str, str], most: str | None
    ) -> None:
        make_jar()
        found = options(tailrace.configure(SparkSession.builder.config(map={**given})))
        assert found.get(rocksdb_memory.MOST_MB) == most
        assert found[rocksdb_memory.BOUNDED] == "true"

    def test_a_user_may_leave_sparks_rocksdb_without_a_bound(self, make_jar: MakeJar) -> None:
        make_jar()
        builder = SparkSession.builder.config(rocksdb_memory.BOUNDED, "false")
        assert options(tailrace.configure(builder))[rocksdb_memory.BOUNDED] == "false"

    def test_a_file_manager_of_the_users_stays(self, make_jar: MakeJar) -> None:
        make_jar()
        found = options(tailrace.configure(SparkSession.builder.config(FILE_MANAGER_KEY, "org.example.Mine")))
        assert found[FILE_MANAGER_KEY] == "org.example.Mine"

    def test_the_users_settings_stay_and_stand_first(self, make_jar: MakeJar) -> None:
        jar = make_jar()
        builder = SparkSession.builder.config(
            map={
                "spark.jars": "mine.jar, other.jar",
                "spark.jars.packages": "org.example:thing:1.0",
                "spark.sql.extensions": "org.example.Extensions",
            }
        )
        found = options(tailrace.configure(builder))
        assert found["spark.jars"] == f"mine.jar,other.jar,{jar}"
        assert found["spark.jars.packages"] == "org.example:thing:1.0"
        assert found["spark.sql.extensions"] == f"org.example.Extensions,{EXTENSION}"

    def test_settings_of_spark_defaults_stay(self, make_jar: MakeJar, no_jvm: Path) -> None:
        jar = make_jar()
        lines = ["# comment", "spark.jars  default.jar", "spark.sql.extensions=org.example.Extensions", ""]
        (no_jvm / "spark-defaults.conf").write_text("\n".join(lines))
        found = options(tailrace.configure(SparkSession.builder))
        assert found["spark.jars"] == f"default.jar,{jar}"
        assert found["spark.sql.extensions"] == f"org.example.Extensions,{EXTENSION}"

    def test_twice_is_once(self, make_jar: MakeJar) -> None:
        make_jar()
        once = options(tailrace.configure(SparkSession.builder.config("spark.jars", "mine.jar")))
        again = tailrace.configure(SparkSession.builder.config(map=once))
        assert options(again) == once

    def test_the_same_jar_under_another_path_is_enough(self, make_jar: MakeJar) -> None:
        elsewhere = f"hdfs://cluster/libs/{make_jar().name}"
        found = options(tailrace.configure(SparkSession.builder.config("spark.jars", elsewhere)))
        assert found["spark.jars"] == elsewhere

    def test_the_state_store_provider_of_the_users_stays(self, make_jar: MakeJar) -> None:
        make_jar()
        found = options(tailrace.configure(SparkSession.builder.config(PROVIDER_KEY, "org.example.Provider")))
        assert found[PROVIDER_KEY] == "org.example.Provider"

    def test_jars_of_the_submit_arguments_are_refused_with_the_cure(
        self, make_jar: MakeJar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jar = make_jar()
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars mine.jar pyspark-shell")
        with pytest.raises(TailraceSessionError) as refusal:
            tailrace.configure(SparkSession.builder)
        assert f"--jars mine.jar,{jar}" in str(refusal.value)

    def test_the_cured_submit_arguments_pass(
        self, make_jar: MakeJar, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jars = f"mine.jar,{make_jar()}"
        arguments = (
            f"--packages org.example:thing:1.0 --jars={jars} --conf spark.sql.extensions=org.example.E"
        )
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
        found = options(tailrace.configure(SparkSession.builder))
        assert found["spark.jars"] == jars
        assert found["spark.sql.extensions"] == f"org.example.E,{EXTENSION}"

    def test_a_session_of_a_connect_server_is_left_as_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPARK_REMOTE", "sc://example:15002")
        assert options(tailrace.configure(SparkSession.builder)) == {}
        monkeypatch.delenv("SPARK_REMOTE")
        given = {"spark.remote": "sc://example:15002"}
        assert options(tailrace.configure(SparkSession.builder.config(map=dict(given)))) == given

    @pytest.mark.parametrize("connect", [{"spark.remote": "local[2]"}, {"spark.api.mode": "connect"}])
    def test_a_connect_server_of_this_process_gets_its_plugin(
        self, make_jar: MakeJar, connect: dict[str, str]
    ) -> None:
        jar = make_jar()
        found = options(tailrace.configure(SparkSession.builder.config(map=dict(connect))))
        assert found["spark.jars"] == str(jar)
        assert found["spark.sql.extensions"] == EXTENSION
        assert found["spark.connect.extensions.relation.classes"] == RELATIONS

    def test_sources_without_a_jar_say_so(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr("tailrace._installation.jar._FOLDER", tmp_path)
        with pytest.raises(TailraceSessionError, match="has no jar"):
            tailrace.configure(SparkSession.builder)

    def test_something_else_than_a_builder_is_a_type_error(self) -> None:
        not_a_builder: Any = object()
        with pytest.raises(TypeError, match=r"SparkSession\.builder, not object\.$"):
            tailrace.configure(not_a_builder)

    def test_a_session_is_too_late(self) -> None:
        session: Any = object.__new__(SparkSession)
        with pytest.raises(TypeError, match=r"not SparkSession\. Call configure before getOrCreate\(\)\.$"):
            tailrace.configure(session)


@pytest.mark.contract
def test_a_session_of_ours_passes_again(spark: SparkSession) -> None:
    assert tailrace.configure(SparkSession.builder).getOrCreate() is spark


@pytest.mark.contract
def test_a_session_of_ours_has_all_three(spark: SparkSession) -> None:
    assert EXTENSION in (spark.conf.get("spark.sql.extensions") or "")
    assert str(tailrace.jar_path()) in (spark.conf.get("spark.jars") or "")
    assert spark.conf.get(FILE_MANAGER_KEY) == "io.tailrace.checkpoint.TailraceFileManager"


# With no jar of Tailrace's on its class path: whether one is installed or not, this JVM hasn't loaded it.
STALE = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import tailrace
from tailrace._installation import jar

folder = Path(sys.argv[1])
(folder / jar.jar_path().name).touch()
jar._FOLDER = folder
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
for state in ("running", "stopped"):
    try:
        tailrace.configure(SparkSession.builder)
    except tailrace.TailraceSessionError as error:
        print(state, "refused:", error)
    spark.stop()
"""


def test_a_jvm_without_the_jar_is_refused_running_and_stopped(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python("-c", STALE, str(tmp_path))
    assert done.returncode == 0, done.stderr
    running, stopped = done.stdout.splitlines()
    for line, state in ((running, "running"), (stopped, "stopped")):
        assert line.startswith(f"{state} refused: Spark is running in this process without Tailrace's jar")
        assert "restart the Python process" in line


JAR_ALONE = """
import sys
import tailrace
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.jars", str(tailrace.jar_path())).getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
left = rows.selectExpr("value AS k", "timestamp AS t")
right = rows.selectExpr("value AS k", "timestamp AS rt")
joined = tailrace.join(
    left.withWatermark("t", "1 second"),
    right.withWatermark("rt", "1 second"),
    on="k",
    left_time="t",
    right_time="rt",
    after="1 second",
)
writer = joined.writeStream.format("noop").option("checkpointLocation", sys.argv[1])
query = writer.trigger(availableNow=True).start()
query.awaitTermination()
print(query.lastProgress.stateOperators[0].operatorName)
print(tailrace.configure(SparkSession.builder).getOrCreate() is spark)
"""


@pytest.mark.campaign
def test_the_jar_alone_is_an_installation(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python("-c", JAR_ALONE, str(tmp_path / "checkpoint"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["tailraceLabelJoin", "True"]
