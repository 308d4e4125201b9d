package io.tailrace.recursion

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamingBatch

/** The rows of hops that Spark keeps for a micro-batch. Its operators can't tell when a batch is over, so they go when the
  * next one comes, or another query starts after theirs has ended.
  */
private[recursion] object KeptRows {
  private final case class Kept(batch: Long, rows: Seq[RDD[_]])

  private val kept = new ConcurrentHashMap[(String, String), Kept]

  /** Has Spark keep what an RDD gives, as long as the batch that runs in this thread. */
  def keep(session: SparkSession, recursion: String, batch: StreamingBatch)(
      rows: RDD[InternalRow]
  ): RDD[InternalRow] = {
    val stored = rows.persist(ShuffledFixpoint.Storage)
    kept.compute(
      (batch.runId, recursion),
      (_, before) => {
        val same = Option(before).filter(_.batch == batch.batchId)
        if (same.isEmpty) release(before)
        Kept(batch.batchId, same.fold(Seq.empty[RDD[_]])(_.rows) :+ stored)
      }
    )
    val active = StreamingBatch.activeRuns(session)
    kept.forEach((key, old) => if (!active(key._1) && kept.remove(key, old)) release(old))
    stored
  }

  private def release(old: Kept): Unit = if (old != null) old.rows.foreach(_.unpersist(blocking = false))
}
