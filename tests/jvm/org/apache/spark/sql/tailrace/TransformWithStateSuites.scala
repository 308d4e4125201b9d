package org.apache.spark.sql.tailrace

import org.apache.spark.sql.streaming._

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
}
