package io.tailrace.state

import java.io.File
import java.nio.file.Files

/** A version of a partition's state that something else than the query reads, with local files for its runs. They
  * come when they are read, and are deleted at the end.
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
    try LoadedState.outside(files, version, checkpointId, () => newFile(), shapes, isInPart)
    catch {
      case e: Throwable =>
        deleteFiles()
        throw e
    }
  state.acquire()

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
