package io.tailrace.join

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{QueryStart, SourceNames}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.Errors
import io.tailrace.plan.WriteCheck

/** The sources of a query that names them, which may come and go with its starts.
  *
  * Spark reads a source that comes back from its beginning. Rows that the state of a join has of it would be there twice,
  * so such a start is refused, before Spark notes a batch with the source:
  *
  * {{{
  *   start      1               2           3
  *   sources    served, buys    served      served, buys: refused
  * }}}
  */
private[tailrace] object NamedSources extends WriteCheck {

  override def apply(start: QueryStart): Unit = for {
    root <- start.checkpoint
    now = SourceNames.of(start.plan)
    if now.nonEmpty
    spark = new SparkCheckpoint(root, start.hadoopConf)
    batch <- spark.begunBatches.reverseIterator.find(spark.hasCompleted)
    last <- spark.begun(batch)
    id <- spark.operatorIds
    directory = spark.directory(id)
    written <- JoinCheckpoint.find(directory, start.hadoopConf, batch)
  } {
    val returned = now.intersect(written.sources).diff(last.names).distinct.sorted
    if (returned.nonEmpty) throw Errors.checkpointIncompatible(directory.toString, returned.map(refusal))
  }

  private def refusal(name: String): String =
    s"source '$name' was left out, and comes back: Spark reads it from its beginning, and rows of it that are in the " +
      "state would be there twice. Give it another name, and the offset that it begins from"

  /** Names of a query's sources.
    *
    * @param root  of its checkpoint
    * @param batch that has begun
    */
  def of(root: Path, conf: Configuration, batch: Long): Seq[String] =
    if (SourceNames.areGiven) new SparkCheckpoint(root, conf).begun(batch).fold(Seq.empty[String])(_.names)
    else Nil
}
