package io.tailrace.windows

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.tailrace.{GatheredRows, SparkSession}

/** Files of about a target size, where each task would otherwise write a file of its own for each window.
  *
  * {{{
  *   200 tasks with rows of 12:00 and 13:00 ──> shuffle by window ──> 12:00 in 3 tasks, 13:00 in one
  *                                                                    4 files in place of 400
  * }}}
  *
  * Spark knows how many bytes a shuffle has, and not how many the files will have. Their ratio is that of the
  * last micro-batch.
  *
  * @param target bytes of a file
  */
private[windows] final class FileSizes(session: SparkSession, target: Long) {
  private val gathered = new GatheredRows(session)
  private var shuffledPerByte = FileSizes.Unknown

  /** @param output the plan's columns as the query names them
    * @param by     columns that make directories
    * @param write  writes the rows of a plan
    */
  def write(plan: SparkPlan, output: Seq[Attribute], by: Seq[Attribute])(
      write: SparkPlan => Seq[StagedFile]
  ): Seq[StagedFile] = {
    val bytes = Math.max((target * shuffledPerByte).toLong, 1)
    val (files, shuffled) = gathered.run(plan, output, by, bytes)(write)
    val written = files.map(_.length).sum
    if (shuffled > 0 && written > 0) shuffledPerByte = shuffled.toDouble / written
    files
  }
}

private object FileSizes {

  /** A guess for a query's first micro-batch: Parquet's columns compress better than rows. */
  private val Unknown = 2.0
}
