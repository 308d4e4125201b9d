package io.tailrace.common

import scala.util.control.NonFatal

/** Undoes a failed operation. The original error is thrown; an error of the undoing is attached to it. */
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
