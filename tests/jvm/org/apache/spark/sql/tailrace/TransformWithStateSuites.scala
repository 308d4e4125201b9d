package org.apache.spark.sql.tailrace

import org.apache.spark.sql.streaming._

/** transformWithState tells Spark's RocksDB provider by its name; `TransformWithStateDelegation` is what lets it run on ours. */
final class TransformWithStateRowsSuite extends TransformWithStateUnsafeRowSuite with OnTailrace {
  override protected def everyRun = Seq(
    "streaming with rocksdb and event time based timer (encoding = UnsafeRow) (with changelog checkpointing)",
    "test query restart succeeds (encoding = UnsafeRow) (without changelog checkpointing)"
  )
  override protected def notApplicable = Map(
    "expects a failure later than the restart may raise it; five of six runs on Spark's own RocksDB provider fail" ->
      Seq("with", "without").map(changelog =>
        "test that introducing TTL after restart fails query (encoding = UnsafeRow) " +
          s"($changelog changelog checkpointing)"
      )
  )
}

final class TransformWithInitialStateSuite extends TransformWithStateInitialStateSuite with OnTailrace {
  override protected def everyRun = Nil
}

final class TransformWithStateChainSuite extends TransformWithStateChainingSuite with OnTailrace {
  override protected def everyRun = Nil
}

final class TransformWithStateErrorsSuite extends TransformWithStateValidationSuite with OnTailrace {
  override protected def everyRun = Nil
  override protected def notApplicable = Map(
    "expects the session's provider to be Spark's HDFS-backed one" -> Seq(
      "transformWithState - streaming with hdfsStateStoreProvider should fail",
      "transformWithStateWithInitialState - streaming with hdfsStateStoreProvider should fail"
    )
  )
}
