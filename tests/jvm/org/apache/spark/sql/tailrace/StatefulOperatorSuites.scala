package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.state.{
  HDFSBackedStateStoreProvider,
  RocksDBStateStoreIntegrationSuite
}
import org.apache.spark.sql.streaming._

final class AggregationSuite extends StreamingAggregationSuite with OnTailrace {
  override protected def everyRun =
    Seq("multiple keys - state format version 2", "state metrics - append mode - state format version 2")
  override protected def notApplicable = Map(
    NotApplicable.OldCheckpoint ->
      Seq("simple count, update mode - recovery from checkpoint uses state format version 1")
  )
}

final class DeduplicationSuite extends StreamingDeduplicationSuite with OnTailrace {
  override protected def everyRun =
    Seq("deduplicate with watermark")
  override protected def notApplicable = Map(
    NotApplicable.OldCheckpoint -> (for {
      what <- Seq("having all columns as value schema", "with changes on key schema are not allowed")
      spark <- Seq("3.3.0", "3.5.1")
    } yield s"SPARK-39650: recovery from checkpoint $what with sparkVersion=$spark")
  )
}

final class DeduplicationWithinWatermarkSuite
    extends StreamingDeduplicationWithinWatermarkSuite
    with OnTailrace {
  override protected def everyRun = Nil
}

final class FlatMapGroupsSuite extends FlatMapGroupsWithStateSuite with OnTailrace {
  override protected def everyRun = Seq(
    "streaming w/ event time timeout + watermark - state format version 2"
  )
}

final class FlatMapGroupsWithInitialStateSuite
    extends FlatMapGroupsWithStateWithInitialStateSuite
    with OnTailrace {
  override protected def everyRun = Nil
  override protected def notApplicable = Map(
    "fails on Spark's plain RocksDB provider too" ->
      Seq("flatMapGroupsWithState - initial state - processing time timeout - state format version 1")
  )
}

final class SessionWindowSuite extends StreamingSessionWindowSuite with OnTailrace {
  override protected def everyRun = Nil
  override protected def notApplicable = Map(
    NotApplicable.OnHdfs -> (for {
      name <- Seq(
        "complete mode - session window",
        "complete mode - session window - nested tuple key",
        "complete mode - session window - multiple col key",
        "complete mode - session window - no key",
        "append mode - session window",
        "append mode - session window - no key",
        "update mode - session window",
        "update mode - session window - no key",
        "SPARK-36465: dynamic gap duration",
        "dynamic gap duration - nested tuple key",
        "dynamic gap duration - multiple col key",
        "session window - with more aggregation functions and UDAFs"
      )
      merging <- Seq(true, false)
    } yield s"$name - merging sessions in local partition: $merging / " +
      s"provider: ${classOf[HDFSBackedStateStoreProvider].getName}")
  )
}

final class MultipleOperatorsSuite extends MultiStatefulOperatorsSuite with OnTailrace {
  override protected def everyRun = Seq("join -> window agg, append mode")
}

final class RocksDBIntegrationSuite extends RocksDBStateStoreIntegrationSuite with OnTailrace {
  override protected def everyRun = Nil
}
