package io.tailrace.recursion

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.DurableFiles

/** The rows that a batch has fed back, from outside of the query.
  *
  * @param columns of its rows: the user's, then the recursion's own
  * @param files   with rows, those of a task together
  */
private[tailrace] final case class KeptRounds(columns: StructType, files: Seq[Seq[String]]) {

  /** The columns without the recursion's own. */
  def users: StructType = StructType(columns.filterNot(column => RecursionResolution.Own(column.name)))

  /** The place of the depth among the columns. */
  def depth: Option[Int] = Some(columns.indexWhere(_.name == RecursionResolution.Depth)).filter(_ >= 0)

  def reader(files: Seq[String], conf: SerializableConfiguration): PartitionReader[InternalRow] =
    new FeedbackReader(files, conf.value, columns)
}

private[tailrace] object KeptRounds {

  /** @param directory of a recursion
    * @return without columns if nothing is fed back: they are only in files with rows
    * @throws io.tailrace.common.TailraceStateException TAILRACE_RECURSION_FEEDBACK_INCOMPLETE
    */
  def of(directory: Path, batch: Long, conf: Configuration): KeptRounds = {
    val files = new FeedbackLog(directory, conf).fedBack(batch).files
    val columns = files.headOption.fold(new StructType()) { case (file, _) =>
      columnsOf(new Path(file), batch, conf)
    }
    KeptRounds(columns, FeedbackSplits.group(files))
  }

  private def columnsOf(file: Path, batch: Long, conf: Configuration): StructType =
    DurableFiles.in(file, conf).stream(file, s"the micro-batch after batch $batch") { in =>
      DataType
        .fromJson(FeedbackFile.columns(in, file.toString, FeedbackLog.place(file)))
        .asInstanceOf[StructType]
    }
}
