package io.tailrace.state

import java.util.UUID

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.tailrace.StreamAccess
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{StoreFixture, TestRow}

/** The contract of Spark's `StateStoreSuiteBase`, for the own store, which has no put and no get.
  * jvm/docs/spark-suites.md says which test here stands for which of Spark's.
  */
final class OwnStoreContractSuite extends AnyFunSuite with StoreFixture {
  private val kind = StoreKind.LeftTimeSorted

  /** @param id with Spark's checkpoint format 2 */
  private case class Version(number: Long, id: Option[String])
  private val Empty = Version(0, None)

  private def rowAt(version: Long): TestRow = TestRow.of(s"k$version", version, version)

  private def load(provider: OwnStoreProvider, version: Version): TailraceStateStore =
    provider.getStore(version.number, version.id).asInstanceOf[TailraceStateStore]

  /** The version on top of `version`, with one more row. */
  private def step(provider: OwnStoreProvider, version: Version): Version = add(
    load(provider, version)
  )

  private def add(store: StateStore): Version = store match {
    case own: TailraceStateStore =>
      own.addRun(1000, kind -> bufferOf(rowAt(own.version)))
      assert(own.commit() == own.version + 1)
      Version(own.version + 1, own.getStateStoreCheckpointInfo().stateStoreCkptId)
    case other => fail(s"not Tailrace's store: $other")
  }

  private def rowsAt(provider: OwnStoreProvider, version: Version): Seq[TestRow] = {
    val store = load(provider, version)
    try rowsOf(store, kind)
    finally store.abort()
  }

  private def refusedAsMissing(body: => Any): Unit =
    intercept[Exception](body) match {
      case e: SparkThrowable => assert(e.getCondition == "TAILRACE_STATE_FILE_MISSING")
      case e => throw e
    }

  private def count(rows: Iterator[UnsafeRowPair]): Int = rows.size

  Seq(Nil, Seq(CheckpointIds)).foreach { format =>
    val named = s"checkpoint format ${format.headOption.fold("1")(_._2)}"
    def newOne(settings: (String, String)*): OwnStoreProvider =
      newProvider(storeConf(format ++ settings: _*))

    test(s"any version is loaded as it was committed, where it was and elsewhere, $named") {
      val provider = newOne()
      val versions = (0 until 3).scanLeft(Empty)((version, _) => step(provider, version))
      assert(versions.tail.forall(_.id.isDefined == format.nonEmpty))
      versions.reverse.foreach { version =>
        val expected = (0L until version.number).map(rowAt)
        assert(rowsAt(provider, version) == expected)
        assert(rowsAt(newOne(), version) == expected)
      }
    }

    test(s"what was added and aborted is in no version, $named") {
      val provider = newOne()
      val one = step(provider, Empty)
      val store = load(provider, one)
      store.addRun(1000, kind -> bufferOf(rowAt(9)))
      store.abort()
      assert(rowsAt(provider, one) == Seq(rowAt(0)))
      assert(rowsAt(newOne(), step(provider, one)) == Seq(rowAt(0), rowAt(1)))
    }

    test(s"a version that never was is refused, $named") {
      val provider = newOne()
      val unknown = format.headOption.map(_ => UUID.randomUUID.toString)
      Seq(-1L, 1L).foreach(v => refusedAsMissing(load(provider, Version(v, unknown))))
      val one = step(provider, Empty)
      Seq(-1L, 2L).foreach(v => refusedAsMissing(load(provider, Version(v, unknown))))
      step(provider, one)
      refusedAsMissing(load(provider, Version(3, unknown)))
      refusedAsMissing(newOne().getReadStore(3, unknown))
      assert(rowsAt(provider, one) == Seq(rowAt(0)))
    }

    test(s"a read store that is aborted after the write store has committed takes nothing away, $named") {
      val one = step(newOne(), Empty)
      val provider = newOne()
      val read = provider.getReadStore(one.number, one.id)
      val two = add(provider.upgradeReadStoreToWriteStore(read, one.number, one.id))
      read.abort()
      assert(rowsAt(provider, two) == Seq(rowAt(0), rowAt(1)))
      assert(rowsAt(newOne(), two) == Seq(rowAt(0), rowAt(1)))
    }

    test(s"maintenance deletes what no retained version needs, $named") {
      val provider = newOne(retain(2))
      val versions = (0 until 5).scanLeft(Empty)((version, _) => step(provider, version))
      val dropping = load(provider, versions.last)
      dropping.dropThrough(kind, 1)
      val six = add(dropping)
      val last = (0 until 2).scanLeft(six)((version, _) => step(provider, version))
      provider.maintain()
      versions.slice(1, 3).foreach(version => refusedAsMissing(load(newOne(), version)))
      last.foreach(version => assert(rowsAt(newOne(), version) == (2L until version.number).map(rowAt)))
    }

    test(s"Spark's registry of stores reads, turns a read store into a write store, and goes on, $named") {
      val settings =
        format :+ (SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[OwnStoreProvider].getName)
      val conf = storeConf(settings: _*)
      val hadoop = hadoopConf()
      val id = StateStoreProviderId(storeId, UUID.randomUUID)
      val (keys, values) = (BufferedRows.KeySchema, BufferedRows.ValueSchema)
      val encoder = NoPrefixKeyStateEncoderSpec(keys)
      def write(v: Version) =
        StateStore.get(
          id,
          keys,
          values,
          encoder,
          v.number,
          v.id,
          None,
          useColumnFamilies = false,
          conf,
          hadoop
        )
      def read(v: Version) =
        StateStore.getReadOnly(
          id,
          keys,
          values,
          encoder,
          v.number,
          v.id,
          None,
          useColumnFamilies = false,
          conf,
          hadoop
        )
      try {
        val one = add(write(Empty))
        val reading = read(one)
        assert(count(reading.iterator()) == 1)
        val two = add(
          StateStore.getWriteStore(
            reading,
            id,
            keys,
            values,
            encoder,
            one.number,
            one.id,
            None,
            useColumnFamilies = false,
            conf,
            hadoop
          )
        )
        reading.release()
        val after = read(two)
        assert(count(after.iterator()) == 2)
        after.release()
        assert(StateStore.isLoaded(id))
      } finally StreamAccess.stopStores()
    }
  }

  test("the number of keys is that of the rows that have not expired, after the commit and after a load") {
    val provider = newProvider()
    val store = open(provider, 0)
    store.addRun(1000, kind -> bufferOf((0L until 5L).map(rowAt)))
    store.commit()
    assert(store.metrics.numKeys == 5)
    val next = open(newProvider(), 1)
    assert(next.metrics.numKeys == 5)
    next.markExpired(kind, 1, _ => 2)
    next.commit()
    assert(next.metrics.numKeys == 3)
    val after = open(newProvider(), 2)
    assert(after.metrics.numKeys == 3)
    after.abort()
  }

  test("memory used is that of the version's files, more with more rows") {
    val provider = newProvider()
    def used(version: Long): Long = {
      val store = open(provider, version)
      try store.metrics.memoryUsedBytes
      finally store.abort()
    }
    assert(used(0) == 0)
    val one = step(provider, Empty)
    val before = used(1)
    assert(before > 0)
    step(provider, one)
    assert(used(2) > before)
  }

  test("an iterator sees the rows of the moment it was made") {
    val provider = newProvider()
    val store = open(provider, step(provider, Empty).number)
    val early = store.iterator()
    store.addRun(1000, kind -> bufferOf(rowAt(7)))
    val late = store.iterator()
    assert((count(early), count(late)) == ((1, 2)))
    Seq(early, late).foreach(_.close())
    store.abort()
  }
}
