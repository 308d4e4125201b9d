package io.tailrace.join

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.{QueryStart, SourceNames, SparkSession, StreamingRun}

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

  override def apply(start: QueryStart): Unit = start.checkpoint.foreach { root =>
    val now = SourceNames.of(start.plan)
    if (now.nonEmpty) SparkCheckpoint.readable(root.toString)(check(root, start.hadoopConf, now))
  }

  private def check(root: Path, conf: Configuration, now: Seq[String]): Unit = {
    val spark = new SparkCheckpoint(root, conf)
    spark.newestCompleted.foreach { batch =>
      // Spark continues from the newest batch, also if that was cut off: what it lacks begins anew.
      val known = spark.begunBatches.lastOption.flatMap(spark.begun(_)).toSeq.flatMap(_.names)
      if (known.exists(isNumber) && now.intersect(known).isEmpty)
        throw Errors.checkpointIncompatible(root.toString, Seq(Unnamed))
      for {
        id <- spark.operatorIds
        directory = spark.directory(id)
        written <- JoinCheckpoint.find(directory, conf, batch)
      } {
        val returned = now.intersect(written.sources).diff(known).distinct.sorted
        if (returned.nonEmpty)
          throw Errors.checkpointIncompatible(directory.toString, returned.map(cameBack))
      }
    }
  }

  /** The key of a source without a name, in version 2 of Spark's log. */
  private def isNumber(name: String): Boolean = name.forall(_.isDigit)

  private def cameBack(name: String): String =
    s"source '$name' was left out, and comes back: Spark reads it from its beginning, and rows of it that are in the " +
      "state would be there twice. Leave it out, or give it another name, and an option by which it begins where it was left"

  private val Unnamed = "the query's sources have names, and had none: Spark reads them from their beginning"

  /** Names of the sources of the query that runs in this thread: by its plan, and by the batch that it begins with, which
    * an earlier start may have begun.
    *
    * @param root of its checkpoint
    * @return none if it doesn't name them
    */
  def of(session: SparkSession, root: Path, conf: Configuration, batch: Long): Seq[String] = {
    val ofPlan = StreamingRun.current(session).sourceNames
    val begun = if (ofPlan.isEmpty) None else new SparkCheckpoint(root, conf).begun(batch)
    (ofPlan ++ begun.toSeq.flatMap(_.names)).distinct.sorted
  }
}
