package org.apache.spark.sql.tailrace

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.{
  WriteJobStatsTracker,
  WriteTaskStats,
  WriteTaskStatsTracker
}

/** Counts the rows of each file that a job writes. */
final class RowsPerFile extends WriteJobStatsTracker {
  @transient private var counts = Map.empty[String, Long]

  /** The numbers of rows by the path of the file, when the job has ended. */
  def rows: Map[String, Long] = counts

  override def newTaskInstance(): WriteTaskStatsTracker = new RowsPerFile.OfTask

  override def processStats(stats: Seq[WriteTaskStats], jobCommitTime: Long): Unit =
    counts = stats.collect { case RowsPerFile.Counted(rows) => rows }.flatten.toMap
}

object RowsPerFile {
  final case class Counted(rows: Seq[(String, Long)]) extends WriteTaskStats

  final class OfTask extends WriteTaskStatsTracker {
    private val counts = mutable.HashMap.empty[String, Long]

    // Rows of one file follow each other, unless a setting makes Spark write several files at once.
    private var file = ""
    private var rows = 0L

    override def newPartition(partitionValues: InternalRow): Unit = ()
    override def newFile(filePath: String): Unit = counts(filePath) = 0

    override def newRow(filePath: String, row: InternalRow): Unit = {
      if (filePath != file) turnTo(filePath)
      rows += 1
    }

    private def turnTo(next: String): Unit = {
      if (file.nonEmpty) counts(file) += rows
      file = next
      rows = 0
    }

    override def closeFile(filePath: String): Unit = ()

    override def getFinalStats(taskCommitTime: Long): WriteTaskStats = {
      turnTo("")
      Counted(counts.toSeq)
    }
  }
}
