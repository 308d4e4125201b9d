package io.tailrace.state

/** The compactions of all stores, for suites of other packages. */
object Compactions {

  /** Waits until those that have begun have ended. */
  def awaitEnd(): Unit = Compactor.awaitEnd()
}
