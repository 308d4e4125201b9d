package io.tailrace.api

import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession => ClassicSession}
import org.apache.spark.sql.{Dataset, SparkSession}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.OwnNames
import io.tailrace.erase.{Erase, EraseOptions, EraseReport}
import io.tailrace.exchange._
import io.tailrace.label.JoinOptions
import io.tailrace.rescale.{Rescale, RescaleReport, RescaledCopy}

/** What can be done with the checkpoint of a query that doesn't run. */
trait StateCommands {

  /** Gives the joins of a checkpoint another number of state partitions. The query must not run: it continues with
    * the new number when it starts again. After an error it continues with either, and the call may be repeated.
    *
    * @param checkpoint the query's checkpointLocation
    * @param dryRun     only reads and counts the rows
    * @param to         a new checkpoint, which gets a copy with the new number; the old one stays as it is
    * @throws io.tailrace.common.TailraceAnalysisException if the checkpoint can't be rescaled
    * @throws io.tailrace.common.TailraceStateException if its state can't be read or written
    */
  def rescale(
      session: SparkSession,
      checkpoint: String,
      partitions: Int,
      dryRun: Boolean = false,
      to: Option[String] = None
  ): RescaleReport = SparkCheckpoint.readable(checkpoint) {
    val classic = session.asInstanceOf[ClassicSession]
    to.fold(new Rescale(classic, checkpoint, partitions, dryRun).run()) {
      new RescaledCopy(classic, checkpoint, _, partitions).run(dryRun)
    }
  }

  /** Writes the rows that wait in a checkpoint's joins as Parquet. The query must not run.
    *
    * @param directory must not exist
    * @param dryRun    only reads and counts the rows
    */
  def exportState(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      dryRun: Boolean = false
  ): ExportReport = SparkCheckpoint.readable(checkpoint) {
    new Export(session.asInstanceOf[ClassicSession], checkpoint, directory).run(dryRun)
  }

  /** Makes a checkpoint of an export, for the query that it is of. The rows may have been edited.
    *
    * @param checkpoint must not exist
    * @param dryRun     only checks and counts the rows
    */
  def importState(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      dryRun: Boolean = false
  ): ImportReport =
    new ImportOfExport(session.asInstanceOf[ClassicSession], checkpoint, directory).run(
      dryRun,
      (left, right, on, exported) => {
        import exported.settings
        def time(name: String) = settings(name)
        Tailrace.joinOf(
          left.withWatermark(time("left_time"), "0 seconds"),
          right.withWatermark(time("right_time"), "0 seconds"),
          on,
          JoinOptions(
            leftTime = time("left_time"),
            rightTime = time("right_time"),
            after = settings("after"),
            before = settings("before"),
            how = settings("how"),
            // The column isn't part of the state: any name will do that no left column has.
            into = if (settings("how") == "left") OwnNames.of("labels") else "labels",
            releaseEvery = settings.get("release_every"),
            lateLabels = settings.get("late_labels").map(_.toBoolean),
            release = settings.getOrElse("release", "closed"),
            `match` = if (settings.contains("release")) "first" else "all",
            exactlyOne = settings.contains("exactly_one"),
            // For how long, the state doesn't say: the query will.
            amendFor = exported.state.flatMap(_.amendsAfter).map(_ => "1 second")
          )
        )
      }
    )

  /** The rows of an export, for a query with other settings. What isn't given is as in the export. */
  def exportedRows(
      session: SparkSession,
      checkpoint: String,
      directory: String,
      offsets: Seq[String] = Nil,
      watermarkMs: Option[Long] = None,
      batch: Option[Long] = None
  ): ImportOptions =
    new ImportOfExport(session.asInstanceOf[ClassicSession], checkpoint, directory)
      .options(offsets, watermarkMs, batch)

  /** Makes a checkpoint of a query that has never run, whose join begins with some rows.
    *
    * @param frame      the streaming DataFrame that will be started
    * @param checkpoint must not exist
    */
  def importState(frame: Dataset[_], checkpoint: String, options: ImportOptions): ImportReport = {
    val session = SessionCheck.check(frame.sparkSession)
    new Import(session, SparkPlans.analyzed(frame), checkpoint).run(options)
  }

  /** Erases rows of a checkpoint's joins, from all versions of the state. The query must not run: it goes on without
    * these rows when it starts again. After an error it may continue with them, and the call may be repeated.
    *
    * @param checkpoint the query's checkpointLocation
    * @throws io.tailrace.common.TailraceAnalysisException if nothing can be erased so
    * @throws io.tailrace.common.TailraceStateException if the state can't be read or written, or is in use
    */
  def erase(session: SparkSession, checkpoint: String, options: EraseOptions): EraseReport =
    SparkCheckpoint.readable(checkpoint) {
      new Erase(session.asInstanceOf[ClassicSession], checkpoint, options).run()
    }
}
