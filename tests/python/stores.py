"""Stores that checkpoints are written into, each with servers of its own that end with the block.

    with run_s3(directory) as store:
        ...configure(builder.config(map=store.settings))...
        ...option("checkpointLocation", store.url("query"))...
        store.names("query/commits")

The jars come from Maven's repositories, once, into the user's cache directory.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from store_process import QUICK, StoreProcess
from tailrace._installation.ivy import resolve

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

# As Spark ships it.
_HADOOP = next(Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")).stem.rpartition("-")[2]
_SDK = "2.35.4"
# Earlier ones have no If-None-Match with "transient". With "transient-nio2" S3A takes directories for files.
_S3PROXY = "2.9.0"
BUCKET, IDENTITY, SECRET = "tailrace", "made-up", "made-up-too"


class Store:
    """A store that runs. Paths in it have no slash at the beginning.

    Attributes:
        settings: what a Spark session needs to reach it.
    """

    def __init__(self, process: StoreProcess, root: str, settings: Mapping[str, str]) -> None:
        self._process = process
        self._root = root
        self.settings = settings

    def url(self, path: str) -> str:
        """What Spark calls a path in it."""
        return f"{self._root}/{path}"

    def names(self, folder: str) -> list[str]:
        """What is directly in a folder; none if it isn't there."""
        return self._process.ask("names", folder)

    def fetch(self, folder: str, into: Path) -> None:
        """Copies all that is in a folder into a local one, which isn't there yet."""
        self._process.ask("fetch", folder, str(into))


class S3(Store):
    """An object store; its clients' requests are noted, and can be slowed down."""

    def set_latency(self, milliseconds: int) -> None:
        """How long each request waits before it is done."""
        self._process.ask("latency", str(milliseconds))

    def cpu_seconds(self) -> float:
        """What its process has used of processors."""
        return self._process.cpu_seconds()

    def take_requests(self, file: Path) -> list[str]:
        """The requests since the last time: method, path, query, status, bytes sent and bytes answered.

        Between each two of them is a tab. A copy has the method COPY.

        Args:
            file: where the store writes them.
        """
        self._process.ask("requests", str(file))
        return file.read_text().splitlines()


@contextmanager
def run_s3(directory: Path, options: Sequence[str] = QUICK) -> Generator[S3]:
    """Runs S3Proxy, which stores objects in its memory. Its log is in the directory.

    Args:
        directory: of its log.
        options: of its JVM.
    """
    jars = resolve(f"s3proxy-{_S3PROXY}", [("org.gaul", "s3proxy", _S3PROXY)], transitive=True)
    arguments = [BUCKET, IDENTITY, SECRET]
    with StoreProcess("S3Store.java", jars, arguments, directory / "s3.log", options) as process:
        settings = s3a_settings(process.url, directory)
        yield S3(process, f"s3a://{BUCKET}", settings)


def s3a_settings(endpoint: str, directory: Path) -> dict[str, str]:
    """What a Spark session needs to reach a store that speaks S3's protocol.

    Args:
        endpoint: its address, with "http://".
        directory: for files that wait for their upload. A client that is killed leaves them there.
    """
    return {
        "spark.jars": ",".join(_s3a_jars()),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": IDENTITY,
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.hadoop.fs.s3a.buffer.dir": str(directory / "s3a"),
    }


def _s3a_jars() -> list[str]:
    # Hadoop's module depends on all of Amazon's SDK in one jar of half a gigabyte. This is what S3A uses.
    hadoop = [
        ("org.apache.hadoop", "hadoop-aws", _HADOOP),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ]
    sdk = [("software.amazon.awssdk", name, _SDK) for name in ("s3", "s3-transfer-manager")]
    folders = [
        resolve(f"hadoop-aws-{_HADOOP}", hadoop, transitive=False),
        resolve(f"aws-sdk-s3-{_SDK}", sdk, transitive=True),
    ]
    return sorted(str(jar) for folder in folders for jar in folder.glob("*.jar"))


@contextmanager
def run_hdfs(directory: Path) -> Generator[Store]:
    """Runs a NameNode and a DataNode, which store their files in the directory."""
    module = ("org.apache.hadoop", "hadoop-client-minicluster", _HADOOP)
    jars = resolve(f"hadoop-client-minicluster-{_HADOOP}", [module], transitive=True)
    with StoreProcess("HdfsStore.java", jars, [str(directory / "hdfs")], directory / "hdfs.log") as process:
        yield Store(process, process.url, {})
