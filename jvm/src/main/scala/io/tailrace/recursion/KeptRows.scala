package io.tailrace.recursion

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession

import io.tailrace.driver.{BatchSequence, RunState}

/** The rows of hops that Spark keeps for a micro-batch. Its operators can't tell when a batch is over, so the rows go when
  * the next batch comes, or when the run ends.
  */
private[recursion] final class KeptRows {
  private type Rows = mutable.ListBuffer[RDD[InternalRow]]

  private val batches = new BatchSequence[Rows]((_, before) => {
    before.foreach(release)
    new Rows
  })

  /** Has Spark keep what an RDD gives, as long as the batch. */
  def keep(batch: Long)(rows: RDD[InternalRow]): RDD[InternalRow] = synchronized {
    val stored: RDD[InternalRow] = rows.persist(ShuffledFixpoint.Storage)
    batches.at(batch) += stored
    stored
  }

  private def release(rows: Rows): Unit =
    // A context that is stopped has freed its blocks.
    rows.filterNot(_.sparkContext.isStopped).foreach(_.unpersist(blocking = false))

  private def releaseAll(): Unit = synchronized(batches.last.foreach(release))
}

private[recursion] object KeptRows {
  private val runs = new RunState[KeptRows](_.releaseAll())

  /** Of the run that is executed in this thread. */
  def of(session: SparkSession, recursion: String): KeptRows = runs.of(session, recursion)(new KeptRows)
}
