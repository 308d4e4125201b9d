package io.tailrace.state

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit.{StoreFixture, TestRow}

/** `spark.tailrace.state.durability`. */
final class DurabilitySuite extends AnyFunSuite with StoreFixture {
  private val kind = StoreKind.LeftTimeSorted

  private def setTo(durability: String): Configuration = {
    val conf = hadoopConf()
    conf.set(TailraceConf.StateDurability.key, durability)
    conf
  }

  private def owner(durability: String): OwnStore =
    new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), setTo(durability))

  private def store(owner: OwnStore, version: Long): TailraceStateStore =
    owner.store(version, None, empty = false)

  private def step(owner: OwnStore, version: Long): TestRow = {
    val row = TestRow.of(s"k$version", version, version, s"made by ${version + 1}")
    val s = store(owner, version)
    s.addRun(1000, kind -> bufferOf(row))
    s.commit()
    row
  }

  private def read(owner: OwnStore, version: Long): (Seq[TestRow], Long) = {
    val s = store(owner, version)
    try (rowsOf(s, kind), s.load.lostVersions)
    finally s.abort()
  }

  test("with durability none, versions go on and nothing is written") {
    val o = owner("none")
    val rows = (0L until 3L).map(step(o, _))
    assert(read(o, 3) == (rows -> 0L))
    assert(checkpointFiles.isEmpty)
    o.maintain()
    o.close()
  }

  test("with durability none, a batch that runs again begins with the same version") {
    val o = owner("none")
    val rows = (0L until 3L).map(step(o, _))
    assert(read(o, 2) == (rows.take(2) -> 0L))
    val again = step(o, 2)
    assert(read(o, 3) == ((rows.take(2) :+ again) -> 0L))
    o.close()
  }

  test("with durability none, the stores are empty after a restart, and tell how many versions are lost") {
    val o = owner("none")
    (0L until 3L).foreach(step(o, _))
    o.close()
    val next = owner("none")
    assert(read(next, 3) == (Nil -> 3L))
    val row = step(next, 3)
    assert(read(next, 4) == (Seq(row) -> 0L))
    next.close()
  }

  test("versions that were written with full are read with none") {
    val o = owner("full")
    val rows = (0L until 2L).map(step(o, _))
    o.close()
    val next = owner("none")
    assert(read(next, 2) == (rows -> 0L))
    next.close()
  }

  test("a start with full after none is refused, and the error names the setting") {
    val o = owner("none")
    step(o, 0)
    o.close()
    val next = owner("full")
    val error = intercept[TailraceStateException](read(next, 1))
    assert(error.getCondition == "TAILRACE_STATE_FILE_MISSING")
    assert(error.getMessage.contains(TailraceConf.StateDurability.key))
    next.close()
  }

  test("the default durability is full") {
    val o = new OwnStore(storeId, storeId.storeCheckpointLocation(), storeConf(), hadoopConf())
    step(o, 0)
    assert(checkpointFiles.exists(_.endsWith(".manifest")))
    o.close()
  }
}
