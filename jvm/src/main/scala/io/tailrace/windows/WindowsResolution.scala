package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.TimestampType

import io.tailrace.plan.Columns
import io.tailrace.watermark.{HostProgress, ProgressSettings}

/** Checks that the windows of a DataFrame can be landed, and makes the writer that lands them.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class WindowsResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import WindowsResolution._

  private val columns = new Columns(WindowOptions.arguments, child.output, sameName)

  def writer(
      session: SparkSession,
      path: String,
      eventTime: String,
      options: WindowOptions
  ): DataStreamWriter[Row] = {
    if (!child.isStreaming) throw WindowErrors.batch()
    val landing = sources
    // Times without a zone have no watermark.
    val time = checkWatermark(columns.find("event_time", eventTime, TimestampType))
    Seq(options.into, Start).foreach { name =>
      columns.checkAdded(
        name,
        s"${Columns.rename(name)} The column of windows takes another name with `into`."
      )
    }
    if (path.trim.isEmpty) throw WindowOptions.arguments.invalid("path", "empty", "a folder")
    val folder = new Path(path)
    val qualified = folder.getFileSystem(session.sessionState.newHadoopConf()).makeQualified(folder)
    val settings = options.settings(qualified.toString, landing)
    val start = Alias(WindowStart(time, settings.windows), Start)()
    val plan =
      LandWindows(settings, start.toAttribute, Project(child.output :+ start, child))
    SparkPlans
      .toFrame(session, plan)
      .writeStream
      .format(classOf[WindowSinkProvider].getName)
      .option(WindowSink.Folder, settings.path)
  }

  /** Windows of an event time close by the watermark on that column. The watermark on another column says
    * nothing about them.
    */
  private def checkWatermark(time: Attribute): Attribute = {
    def hasWatermark(a: Attribute) = a.metadata.contains(EventTimeWatermark.delayKey)
    if (!hasWatermark(time))
      throw WindowErrors.watermarkMissing(time.name, child.output.find(hasWatermark).map(_.name))
    time
  }

  /** A DataFrame that is used twice is one source. */
  private def sources: Seq[ProgressSettings] = {
    val watermarks = child.collect { case w: EventTimeWatermark => w.nodeId }.toSet
    val accurate = child.collect { case p: HostProgress => p.nodeId -> p.settings }
    if (watermarks.isEmpty || watermarks != accurate.map(_._1).toSet) throw WindowErrors.source()
    accurate.map(_._2).distinctBy(_.name)
  }
}

private[tailrace] object WindowsResolution {

  /** The number of a row's window, by which Spark sorts rows into files. No file has this column. */
  private val Start = "__tailrace_window"
}
