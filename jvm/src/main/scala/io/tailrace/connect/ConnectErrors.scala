package io.tailrace.connect

import io.tailrace.common.Errors.refuse
import io.tailrace.common.TailraceAnalysisException

/** The errors of calls over Spark Connect. */
object ConnectErrors {

  /** @param call what a client asks for, which this server doesn't have */
  def callUnknown(call: String): TailraceAnalysisException =
    refuse("TAILRACE_CONNECT_CALL_UNKNOWN", "call" -> call)

  def testingOff(): TailraceAnalysisException = refuse("TAILRACE_CONNECT_TESTING_OFF")
}
