package io.tailrace.state

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.{StoreFixture, TestRow}

final class OwnStoreProviderSuite extends AnyFunSuite with StoreFixture {

  test("a store is written, and read elsewhere") {
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

  test("a read store becomes a write store") {
    val provider = newProvider()
    provider.getStore(0).commit()
    val write = provider.upgradeReadStoreToWriteStore(provider.getReadStore(1), 1)
    assert(write.commit() == 2)
  }

  test("a store is begun empty at a version") {
    val provider = newProvider()
    val store = provider.load(5, None, empty = true)
    assert(store.version == 5)
    store.abort()
  }

  test("a store of Spark's is refused") {
    val keys = new StructType().add("user", StringType)
    val e = intercept[IllegalArgumentException](
      newProvider(keySchema = keys, valueSchema = new StructType().add("count", LongType))
    )
    assert(e.getMessage.contains("not a store of Tailrace's"))
  }

  test("a provider that was never initialised closes, and has no store") {
    val provider = new OwnStoreProvider
    provider.maintain()
    provider.close()
    assertThrows[IllegalStateException](provider.getStore(0))
  }

  test("operators name the provider, and the session's settings stay as they are") {
    val session = new SQLConf
    val sparks = session.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS)
    session.setConf(SQLConf.MIN_BATCHES_TO_RETAIN, 7)
    val own = new OwnStoreConf(session, StateLayout.FirstStore, RowShapes.AsWritten)
    assert(own.providerClass == classOf[OwnStoreProvider].getName && own.minVersionsToRetain == 7)
    assert(session.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == sparks)
  }
}
