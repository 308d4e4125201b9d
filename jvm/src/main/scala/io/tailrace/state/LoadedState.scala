package io.tailrace.state

import java.io.File
import java.nio.file.Files
import java.util.concurrent.atomic.AtomicReference

import io.tailrace.common.OnFailure

/** The cost of loading a version of the state on an executor.
  *
  * @param lostVersions versions whose rows are missing, because they were never written; 0 unless
  *                     `spark.tailrace.state.durability` is `none`
  * @param bytes        of runs that weren't on the executor's disk
  * @param millis       for which its task has waited for them
  */
final case class StateLoad(lostVersions: Long = 0, bytes: Long = 0, millis: Long = 0)

object StateLoad {
  val None: StateLoad = StateLoad()
}

/** One committed version with local copies of its runs, which count their users, and may still be coming. */
final class LoadedState(
    val manifest: Manifest,
    val runs: Seq[LocalRun],
    val checkpointId: Option[String],
    dropped: Map[StoreKind, Long] = Map.empty,
    shapes: RowShapes = RowShapes.AsWritten
) {
  private val byName = runs.map(r => r.name -> r).toMap

  val sections: Seq[LiveSection] =
    manifest.runs.flatMap(run => run.sections.map(new LiveSection(byName(run.name), _, shapes)))

  /** Sections without a row after this time were dropped; `Long.MinValue` if that is unknown. */
  def droppedThrough(kind: StoreKind): Long = dropped.getOrElse(kind, Long.MinValue)

  private val kept = new AtomicReference[AnyRef]

  /** Keeps an operator's value in memory, as long as this version. */
  private[state] def keep(value: AnyRef): Unit = kept.set(value)

  /** Takes that value. Only one caller gets it, and may change it. */
  private[state] def takeKept(): Option[AnyRef] = Option(kept.getAndSet(null))

  /** Nanoseconds for which tasks have waited for its runs so far. */
  def waitedNanos: Long = runs.map(_.waitedNanos).sum

  def acquire(): Unit = runs.foreach(_.acquire())
  def release(): Unit = runs.foreach(_.release())
}

/** A version of a partition's state that is read from outside of its query, with local files for its runs. They
  * are copied when they are read, and deleted at the end.
  *
  * @param directory for the files alone; deleted, too
  * @param shapes    rows are read in the newest of them
  * @param isInPart  whether few pages of the runs are read: see [[RunLink]]
  */
private[tailrace] final class OutsideState(
    directory: File,
    files: CheckpointFiles,
    version: Long,
    checkpointId: Option[String],
    shapes: RowShapes,
    isInPart: Boolean = false
) extends AutoCloseable {
  val state: LoadedState =
    OnFailure(deleteFiles()) {
      val manifest = files.readManifest(version, checkpointId)
      new LoadedState(manifest, manifest.runs.map(local), checkpointId, shapes = shapes)
    }
  state.acquire()

  /** It comes when it is read. */
  private def local(run: Run): LocalRun = {
    val file = newFile()
    val link = if (isInPart) files.linkTo(run, version) else None
    val copy = if (link.isEmpty) Some(files.copyOf(run, file, version, LocalBytes.None)) else None
    new LocalRun(run.name, file, copy, link)
  }

  /** An empty local file, which is deleted with the others. */
  def newFile(): File = Files.createTempFile(directory.toPath, "", ".run").toFile

  private def deleteFiles(): Unit = {
    Option(directory.listFiles).toSeq.flatten.foreach(_.delete())
    directory.delete(): Unit
  }

  override def close(): Unit =
    try state.release()
    finally deleteFiles()
}
