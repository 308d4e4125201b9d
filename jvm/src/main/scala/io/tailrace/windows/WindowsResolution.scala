package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.TimestampType

import io.tailrace.common.Errors
import io.tailrace.watermark.{HostProgress, ProgressSettings, WatermarkErrors}

/** Finds out whether a frame's windows can be landed, and makes the writer that does it.
  *
  * @param sameName the session's rule for names
  */
private[tailrace] final class WindowsResolution(child: LogicalPlan, sameName: (String, String) => Boolean) {
  import WindowsResolution._

  def writer(
      session: SparkSession,
      path: String,
      eventTime: String,
      options: WindowOptions
  ): DataStreamWriter[Row] = {
    if (!child.isStreaming) throw Errors.windowsBatch()
    val landing = sources
    val time = timeColumn(eventTime)
    Seq(options.into, Start).foreach { name =>
      if (child.output.exists(a => sameName(a.name, name))) throw Errors.watermarkColumnExists(name)
    }
    if (path.trim.isEmpty) throw Errors.watermarkOptionInvalid("path", "empty", "a folder")
    val folder = new Path(path)
    val qualified = folder.getFileSystem(session.sessionState.newHadoopConf()).makeQualified(folder)
    val settings = options.settings(qualified.toString, landing)
    val start = Alias(WindowStart(time, settings.windows), Start)()
    val plan =
      LandWindows(settings.path, start.toAttribute, Project(child.output :+ start, child))
    SparkPlans
      .toFrame(session, plan)
      .writeStream
      .format(classOf[WindowSinkProvider].getName)
      .option(LandingSettings.Key, LandingSettings.keep(settings))
  }

  private def timeColumn(name: String): Attribute =
    child.output.filter(a => sameName(a.name, name)) match {
      case Seq(one) if one.dataType == TimestampType => checkWatermark(one)
      // Times without a zone aren't those of a watermark, which there is none on.
      case Seq(one) =>
        throw Errors.watermarkColumnType("event_time", one.name, one.dataType.sql, TimestampType.sql)
      case found =>
        throw Errors.watermarkColumn("event_time", name, found.size, child.output.map(_.name))
    }

  /** Windows of a time close by the watermark of that time: another one's says nothing of them. */
  private def checkWatermark(time: Attribute): Attribute = {
    def hasWatermark(a: Attribute) = a.metadata.contains(EventTimeWatermark.delayKey)
    if (!hasWatermark(time))
      throw WatermarkErrors.windowsWatermarkMissing(time.name, child.output.find(hasWatermark).map(_.name))
    time
  }

  /** A frame that is used twice is one source. */
  private def sources: Seq[ProgressSettings] = {
    val watermarks = child.collect { case w: EventTimeWatermark => w.nodeId }.toSet
    val accurate = child.collect { case p: HostProgress => p.nodeId -> p.settings }
    if (watermarks.isEmpty || watermarks != accurate.map(_._1).toSet) throw Errors.windowsSource()
    accurate.map(_._2).distinctBy(_.name)
  }
}

private[tailrace] object WindowsResolution {

  /** The column that no file has: the number of its window, by which Spark sorts rows into files. */
  private val Start = "__tailrace_window"
}
