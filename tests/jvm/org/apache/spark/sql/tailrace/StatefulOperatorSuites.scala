package org.apache.spark.sql.tailrace

import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreIntegrationSuite
import org.apache.spark.sql.streaming._

final class AggregationSuite extends StreamingAggregationSuite with OnTailrace {
  override protected def everyRun =
    Seq("multiple keys - state format version 2", "state metrics - append mode - state format version 2")
}

final class DeduplicationSuite extends StreamingDeduplicationSuite with OnTailrace {
  override protected def everyRun =
    Seq("deduplicate with watermark")
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
    "fails without the extension too" ->
      Seq("flatMapGroupsWithState - initial state - processing time timeout - state format version 1")
  )
}

final class SessionWindowSuite extends StreamingSessionWindowSuite with OnTailrace {
  override protected def everyRun = Nil
}

final class MultipleOperatorsSuite extends MultiStatefulOperatorsSuite with OnTailrace {
  override protected def everyRun = Seq("join -> window agg, append mode")
}

final class RocksDBIntegrationSuite extends RocksDBStateStoreIntegrationSuite with OnTailrace {
  override protected def everyRun = Nil
}
