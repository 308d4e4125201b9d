package io.tailrace.state

import java.util.concurrent.{ExecutionException, Future}

/** A run that a batch has written.
  *
  * {{{
  *   small   comes into the manifest's file, at the end of the batch
  *   large   is copied into the checkpoint while the operator goes on
  * }}}
  */
private[state] final class NewRun(val local: LocalRun, val written: WrittenFile) {
  private var upload = Option.empty[Future[Run]]

  /** True if it comes into the manifest's file. */
  def isInline: Boolean = upload.isEmpty

  /** Begins to copy it into the checkpoint. */
  def uploadBy(owner: OwnStore): Unit = upload = Some(owner.upload(local, written))

  /** Waits for the end of the copy, and throws the error that it ended with. */
  def complete(): Run =
    try upload.fold(Run(local.name, written.length, written.crc32c, Nil))(_.get())
    catch { case e: ExecutionException => throw e.getCause }
}

/** Sorted rows in a local file that isn't part of the state. */
final class ScratchRun(val sections: Seq[LiveSection]) extends AutoCloseable {
  override def close(): Unit = sections.head.local.release()
}
