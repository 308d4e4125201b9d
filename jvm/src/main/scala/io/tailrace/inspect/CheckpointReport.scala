package io.tailrace.inspect

import io.tailrace.common.EventTimes
import io.tailrace.state.{Manifest, Section}

/** The content of a checkpoint, as `tailrace inspect --json` prints it. `jvm/docs/formats.md` describes the
  * fields. Times are ISO 8601 in UTC, and None if there are no rows.
  */
final case class CheckpointReport(
    checkpoint: String,
    batch: Long,
    version: Long,
    checkpointFormat: Int,
    watermark: Option[String],
    operators: Seq[OperatorReport]
)

/** One Tailrace operator: the sums over its partitions, then each of them. */
final case class OperatorReport(
    operator: Long,
    name: String,
    settings: Map[String, String],
    rows: Long,
    bytes: Long,
    files: Int,
    fileBytes: Long,
    stores: Seq[StoreReport],
    partitions: Seq[PartitionReport]
)

/** @param expiredThrough the results of left rows up to this time have been emitted */
final case class PartitionReport(
    partition: Int,
    checkpointId: Option[String],
    expiredThrough: Option[String],
    rows: Long,
    bytes: Long,
    files: Int,
    fileBytes: Long,
    stores: Seq[StoreReport]
)

/** @param bytes         of keys and values before compression, of the sections that hold the rows
  * @param oldestIsBound whether `oldest` is a bound: rows before it have expired, and only the run itself has
  *                      the time of the next row
  */
final case class StoreReport(
    store: String,
    rows: Long,
    bytes: Long,
    oldest: Option[String],
    oldestIsBound: Boolean,
    newest: Option[String]
)

object CheckpointReport {

  def iso(micros: Long): String = EventTimes.iso(micros)

  def operator(
      id: Long,
      name: String,
      settings: Map[String, String],
      partitions: Seq[(Manifest, Option[String])]
  ): OperatorReport = {
    val reports = partitions.zipWithIndex.map { case ((manifest, id), i) => partition(i, manifest, id) }
    OperatorReport(
      id,
      name,
      settings,
      reports.map(_.rows).sum,
      reports.map(_.bytes).sum,
      reports.map(_.files).sum,
      reports.map(_.fileBytes).sum,
      stores(partitions.map(_._1)),
      reports
    )
  }

  private def partition(id: Int, manifest: Manifest, checkpointId: Option[String]): PartitionReport = {
    val byStore = stores(Seq(manifest))
    PartitionReport(
      id,
      checkpointId,
      Some(manifest.expiredThrough).filter(_ != Long.MinValue).map(iso),
      byStore.map(_.rows).sum,
      byStore.map(_.bytes).sum,
      manifest.runs.size,
      manifest.runs.map(_.length).sum,
      byStore
    )
  }

  private def stores(manifests: Seq[Manifest]): Seq[StoreReport] = {
    val alive = manifests.flatMap(m => m.runs.flatMap(_.sections).map(_ -> m.expiredThrough))
    alive.groupBy(_._1.kind).toSeq.sortBy(_._1.id).map { case (kind, sections) =>
      val times = sections.filter { case (section, _) => section.liveRows > 0 }
      // Of two at the same time the row that is sure to be there comes first.
      val oldest = times.map { case (section, through) => oldestOf(section, through) }.sorted.headOption
      StoreReport(
        kind.name,
        sections.map { case (section, _) => section.liveRows }.sum,
        sections.map(_._1.bytes).sum,
        oldest.map { case (time, _) => iso(time) },
        oldest.exists { case (_, isBound) => isBound },
        times.map(_._1.maxTime).maxOption.map(iso)
      )
    }
  }

  /** The time of the section's oldest row that hasn't expired, and whether it is only a bound. */
  private def oldestOf(section: Section, expiredThrough: Long): (Long, Boolean) =
    if (section.kind.timeSorted && section.minTime <= expiredThrough) (expiredThrough + 1, true)
    else (section.minTime, false)
}
