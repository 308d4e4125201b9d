package io.tailrace.rescale

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.tailrace.SparkSession
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.DurableFiles
import io.tailrace.rewrite.{NewCheckpoint, StoppedQuery}

/** A new checkpoint with another number of state partitions. The old one stays as it is.
  *
  * {{{
  *   <to>-import-<unique>/checkpoint   a copy, by a Spark job, which is rescaled there
  *   <to>                              gets its files: [[NewCheckpoint]]
  * }}}
  */
private[tailrace] final class RescaledCopy(
    session: SparkSession,
    checkpoint: String,
    to: String,
    partitions: Int
) {
  private val query = new StoppedQuery(session, checkpoint, "a copy", RescaleErrors.inUse(checkpoint))
  import query.{conf, root}

  /** @param dryRun only reads and counts the rows */
  def run(dryRun: Boolean): RescaleReport = {
    val target = new NewCheckpoint(to, conf)
    target.checkFree()
    val original = new Rescale(session, checkpoint, partitions, dryRun)
    if (dryRun) original.run()
    else {
      original.check()
      checkPlaces()
      var report: Option[RescaleReport] = None
      target.make {
        val made = new Path(target.work, "checkpoint")
        copy(made)
        // A query that ran meanwhile may have deleted files, or begun a batch.
        query.checkUnchanged()
        report = Some(new Rescale(session, made.toString, partitions).run())
        made
      }
      report.get
    }
  }

  /** Spark notes for these where the files with the schemas of their state are, as whole paths. */
  private def checkPlaces(): Unit = {
    val bound = query.operators._2.map(_.name).filter(_.startsWith("transformWithState"))
    if (bound.nonEmpty)
      throw RescaleErrors.unsupported(checkpoint, bound.map(name => s"$name (its schemas have whole paths)"))
  }

  private def copy(made: Path): Unit = {
    val files = filesBelow(root, "")
    val context = session.sparkContext
    val hadoopConf = context.broadcast(new SerializableConfiguration(conf))
    val (from, into) = (root.toString, made.toString)
    context.setJobDescription(s"copy $checkpoint")
    try
      context
        .parallelize(files, Math.min(files.size, RescaledCopy.TasksOfCore * context.defaultParallelism))
        .foreach(RescaledCopy.copy(from, into, _, hadoopConf.value.value))
    finally {
      context.setJobDescription(null)
      hadoopConf.destroy()
    }
  }

  private def filesBelow(directory: Path, below: String): Seq[String] =
    DurableFiles.in(root, conf).list(directory).flatMap { status =>
      val path = below + status.getPath.getName
      // Claims and turns are those of commands on the old checkpoint.
      if (path == "tailrace-rescale") Nil
      else if (status.isDirectory) filesBelow(status.getPath, s"$path/")
      else Seq(path)
    }
}

private object RescaledCopy {
  private val TasksOfCore = 4

  private def copy(from: String, into: String, path: String, conf: Configuration): Unit =
    DurableFiles.copy(new Path(from, path), new Path(into, path), conf, "the copy")
}
