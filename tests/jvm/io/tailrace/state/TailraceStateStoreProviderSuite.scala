package io.tailrace.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.tailrace.SparkState
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{StoreFixture, TestRow}

final class TailraceStateStoreProviderSuite extends AnyFunSuite with StoreFixture {
  private val keySchema = new StructType().add("user", StringType)
  private val valueSchema = new StructType().add("count", LongType)
  private lazy val toKey = UnsafeProjection.create(keySchema)
  private lazy val toValue = UnsafeProjection.create(valueSchema)

  private def key(user: String): UnsafeRow = toKey(InternalRow(UTF8String.fromString(user))).copy()
  private def value(count: Long): UnsafeRow = toValue(InternalRow(count)).copy()

  /** As for an aggregation of Spark's. */
  private def sparksProvider(settings: (String, String)*): TailraceStateStoreProvider =
    newProvider(storeConf(settings: _*), keySchema, valueSchema)

  private def rows(store: ReadStateStore): Set[(String, Long)] = {
    val found = new ArrayBuffer[(String, Long)]
    val all = store.iterator()
    all.foreach(pair => found += pair.key.getString(0) -> pair.value.getLong(0))
    all.close()
    found.toSet
  }

  private def putAll(store: StateStore, counts: (String, Long)*): Long = {
    counts.foreach { case (user, count) => store.put(key(user), value(count)) }
    store.commit()
  }

  test("a store of Spark's is served by Spark's RocksDB: put, get, remove, commit, reload") {
    val provider = sparksProvider()
    val first = provider.getStore(0)
    assert(!first.isInstanceOf[TailraceStateStore])
    assert(putAll(first, "a" -> 1, "b" -> 2) == 1)
    val second = provider.getStore(1)
    assert(second.get(key("a"), StateStore.DEFAULT_COL_FAMILY_NAME).getLong(0) == 1)
    second.remove(key("b"))
    assert(putAll(second, "c" -> 3) == 2)

    val fresh = sparksProvider()
    val one = fresh.getReadStore(1)
    assert(rows(one) == Set("a" -> 1L, "b" -> 2L))
    one.release()
    val two = fresh.getStore(2)
    assert(rows(two) == Set("a" -> 1L, "c" -> 3L))
    two.abort()
    assert(checkpointFiles.exists(_.endsWith(".zip")) || checkpointFiles.exists(_.endsWith(".changelog")))
  }

  test("a read store of Spark's becomes a write store") {
    val provider = sparksProvider()
    putAll(provider.getStore(0), "a" -> 1)
    val read = provider.getReadStore(1)
    val write = provider.upgradeReadStoreToWriteStore(read, 1)
    assert(putAll(write, "b" -> 2) == 2)
    val after = provider.getReadStore(2)
    assert(rows(after) == Set("a" -> 1L, "b" -> 2L))
    after.release()
  }

  test("a store of Spark's keeps its checkpoint ids") {
    val provider = sparksProvider(CheckpointIds)
    val store = provider.getStore(0)
    putAll(store, "a" -> 1)
    val id = store.getStateStoreCheckpointInfo().stateStoreCkptId
    assert(id.isDefined)
    val reloaded = sparksProvider(CheckpointIds).getStore(1, id)
    assert(rows(reloaded) == Set("a" -> 1L))
    reloaded.abort()
  }

  test("maintenance and snapshots of a store of Spark's are done by Spark") {
    val settings = Seq(
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "1",
      "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
    )
    val provider = sparksProvider(settings: _*)
    (0L until 4L).foreach(v => putAll(provider.getStore(v), s"user $v" -> v))
    provider.doMaintenance()
    assert(checkpointFiles.exists(_.endsWith(".zip")))
    val snapshot = checkpointFiles.collect { case s"$version.zip" => version.toLong }.max
    val replayed = provider.replayStateFromSnapshot(snapshot, 4, readOnly = true, None, None)
    assert(rows(replayed) == (0L until 4L).map(v => s"user $v" -> v).toSet)
    replayed.abort()
    val changes = provider.getStateStoreChangeDataReader(1, 4, None, None)
    assert(changes.map(c => (c._1, c._2.getString(0), c._3.getLong(0), c._4)).toSet.size == 4)
    changes.closeIfNeeded()
  }

  test("a store with the schema of Tailrace's buffered rows is Tailrace's own") {
    val provider = newProvider()
    val store = open(provider, 0)
    val row = TestRow.of("k", 5, 5, "v")
    store.addRun(10, StoreKind.LeftTimeSorted -> bufferOf(row))
    store.commit()
    val reloaded = newProvider().getReadStore(1)
    val all = reloaded.iterator()
    assert(
      all.map(pair => (pair.key.getString(0), pair.key.getLong(1))).toSeq == Seq("left-time-sorted" -> 5L)
    )
    all.close()
    reloaded.release()
    assert(provider.stateStoreId == storeId)
  }

  test("a read store of Tailrace's becomes a write store") {
    val provider = newProvider()
    provider.getStore(0).commit()
    val write = provider.upgradeReadStoreToWriteStore(provider.getReadStore(1), 1)
    assert(write.commit() == 2)
  }

  test("an own store can begin empty") {
    val provider = newProvider()
    val store = provider.getStore(5, None, forceSnapshotOnCommit = false, loadEmpty = true)
    assert(store.version == 5)
    store.abort()
  }

  test("the change feed of an own store is refused by name") {
    val provider = newProvider()
    Seq[() => Any](
      () => provider.replayStateFromSnapshot(1, 2, readOnly = true, None, None),
      () => provider.getStateStoreChangeDataReader(1, 2, None, None)
    ).foreach { read =>
      intercept[Exception](read()) match {
        case e: SparkThrowable => assert(e.getCondition == "TAILRACE_STATE_OPERATION_UNSUPPORTED")
        case e => throw e
      }
    }
  }

  test("a provider that was never initialised names the metrics of Spark's operators, and closes") {
    val provider = new TailraceStateStoreProvider
    val sparks = SparkState.newRocksDBProvider()
    assert(provider.supportedCustomMetrics.map(_.name) == sparks.supportedCustomMetrics.map(_.name))
    assert(provider.supportedInstanceMetrics.size == sparks.supportedInstanceMetrics.size)
    provider.doMaintenance()
    provider.close()
    assertThrows[IllegalStateException](provider.getStore(0))
  }
}
