package io.tailrace.replay

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.types._

import io.tailrace.driver.PartitionValue

/** The counts of a filter in a micro-batch.
  *
  * @param passed      new records
  * @param replays     records that were written again
  * @param unprotected records without valid metadata, which pass
  * @param doubtful    those of them whose key has the length of metadata
  * @param gaps        offsets that are newly missing, less missing offsets that have come after all
  * @param returned    origins that had been forgotten and are back: the first record of each has passed
  *                    unjudged
  * @param forgotten   origins that were forgotten before this batch
  * @param mostGaps    the origins with the most offsets missing in all, of those that had records in the
  *                    batch
  */
final case class ReplayCounts(
    passed: Long = 0,
    replays: Long = 0,
    unprotected: Long = 0,
    doubtful: Long = 0,
    gaps: Long = 0,
    returned: Long = 0,
    forgotten: Long = 0,
    mostGaps: Seq[OriginGaps] = Nil
) extends PartitionValue[ReplayCounts] {

  /** Records that were judged. */
  private def records: Long = passed + replays + unprotected

  override def max(other: ReplayCounts): ReplayCounts = if (other.records > records) other else this

  def +(other: ReplayCounts): ReplayCounts = ReplayCounts(
    passed + other.passed,
    replays + other.replays,
    unprotected + other.unprotected,
    doubtful + other.doubtful,
    ReplayCounts.saturated(gaps, other.gaps),
    returned + other.returned,
    forgotten + other.forgotten,
    ReplayCounts.most(mostGaps ++ other.mostGaps)
  )

  /** The row in the query's progress. */
  def toRow: Row = new GenericRowWithSchema(
    Array(passed, replays, unprotected, gaps, returned, forgotten, mostGaps.map(_.toRow), doubtful),
    ReplayCounts.Schema
  )
}

/** @param gaps how many offsets below the mark of an origin have not come */
final case class OriginGaps(pid: Long, partition: Int, gaps: Long) {
  def toRow: Row = new GenericRowWithSchema(Array(pid, partition, gaps), OriginGaps.Schema)
}

object OriginGaps {
  val Schema: StructType =
    new StructType().add("pid", LongType).add("partition", IntegerType).add("gaps", LongType)
}

object ReplayCounts {

  /** The most origins that the progress names: people read it. */
  private val Origins = 20

  val Schema: StructType = Seq("passed", "replays", "unprotected", "gaps", "returned", "forgotten")
    .foldLeft(new StructType())(_.add(_, LongType))
    .add("mostGaps", ArrayType(OriginGaps.Schema))
    .add("doubtful", LongType)

  /** A sum that doesn't overflow: two origins together may miss more offsets than a long holds. */
  def saturated(a: Long, b: Long): Long = {
    val sum = a + b
    // It has overflowed if both have the other sign than the sum.
    if (((a ^ sum) & (b ^ sum)) < 0) { if (a < 0) Long.MinValue else Long.MaxValue }
    else sum
  }

  /** The origins with the most gaps first. The order doesn't depend on the order of the tasks. */
  def most(origins: Seq[OriginGaps]): Seq[OriginGaps] =
    origins.filter(_.gaps > 0).sortBy(o => (-o.gaps, o.pid, o.partition)).take(Origins)
}
