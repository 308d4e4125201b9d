package io.tailrace.common

import scala.util.control.NonFatal

/** Undoes what has failed. The first error is the one that is thrown, and one of the undoing is told with it. */
private[tailrace] object OnFailure {
  def apply[T](undo: => Unit)(body: => T): T =
    try body
    catch {
      case e: Throwable =>
        try undo
        catch { case NonFatal(failure) => e.addSuppressed(failure) }
        throw e
    }
}
