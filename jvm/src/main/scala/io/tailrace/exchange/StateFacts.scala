package io.tailrace.exchange

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.rewrite.JoinState
import io.tailrace.state.{Manifest, StoreKind}

/** What the partitions of a join's state say beside its rows. */
private[exchange] final class StateFacts(manifests: Seq[Manifest]) {

  /** Results of left rows up to this time were emitted in all partitions. */
  def expiredThrough: Long = manifests.map(_.expiredThrough).min
  def operatorTime: Long = manifests.map(_.rightExpiredThrough).min

  /** After the latest of them, all have what it takes. */
  def amendsAfter: Option[Long] =
    Option.when(manifests.forall(_.amendsAfter.nonEmpty))(manifests.flatMap(_.amendsAfter).max)

  /** True if rows were late that left rows in the state don't get. */
  def hasLateRows: Boolean = manifests.exists(_.lateRows.nonEmpty)

  /** True if left rows that were emitted may be amended. */
  def hasEmitted: Boolean = manifests.exists { manifest =>
    val after = manifest.amendsAfter.getOrElse(Long.MinValue)
    manifest.runs.exists(_.sections.exists(of => of.kind == StoreKind.LeftOut && of.maxTime > after))
  }
}

private[exchange] object StateFacts {
  private val Threads = 32

  def read(join: JoinState, conf: Configuration): StateFacts = {
    val manifests = new Array[Manifest](join.before.layout.partitions)
    SparkState.sideBySide("tailrace-export", Threads, manifests.indices) { partition =>
      val files = join.files(join.before, partition, conf)
      manifests(partition) = files.readManifest(join.version, join.before.id(partition))
    }
    new StateFacts(manifests.toSeq)
  }
}
