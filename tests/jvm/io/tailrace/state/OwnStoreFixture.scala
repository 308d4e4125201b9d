package io.tailrace.state

import java.io.File

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{StoreFixture, TestRow}

/** The state of one partition on one executor. */
abstract class OwnStoreFixture extends AnyFunSuite with StoreFixture {
  protected val kind = StoreKind.LeftTimeSorted

  protected def newOwner(settings: (String, String)*): OwnStore =
    new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(settings: _*), hadoopConf())

  protected def load(owner: OwnStore, version: Long, id: Option[String] = None): TailraceStateStore =
    owner.store(version, id, empty = false)

  protected def add(store: TailraceStateStore, rows: TestRow*): TailraceStateStore = {
    store.addRun(1000, kind -> bufferOf(rows))
    store
  }

  /** A version on top of `version` with one more row, at time `version`. */
  protected def step(owner: OwnStore, version: Long): TestRow = {
    val row = TestRow.of(s"k$version", version, version, s"made by ${version + 1}")
    add(load(owner, version), row).commit()
    row
  }

  protected def readAndClose(store: TailraceStateStore): Seq[TestRow] =
    try rowsOf(store, kind)
    finally store.abort()

  protected def localFiles(owner: OwnStore): Set[String] = owner.localFile("x").getParentFile.list.toSet
  protected def stored(name: String): File = new File(storeDirectory, name)

  /** The only manifest of a version. */
  protected def manifest(version: Long): File = {
    val found = checkpointFiles.filter(StateFileNames.manifestVersion(_).contains(version))
    assert(found.size == 1)
    stored(found.head)
  }

  protected def assertFails(condition: String, file: File, owner: OwnStore)(body: => Any): Unit = {
    intercept[Exception](body) match {
      case e: SparkThrowable =>
        assert(e.getCondition == condition)
        assert(new Path(e.getMessageParameters.get("file")).toUri.getPath == file.getPath)
      case e => throw e
    }
    assert(localFiles(owner).isEmpty)
  }
}
