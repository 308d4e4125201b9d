package io.tailrace.driver

/** Gathers on the driver what an operator must know of each micro-batch of a run, one batch after the other.
  *
  * {{{
  *   at(7): begin ── tasks of batch 7 ── end(7): fold ── commit log 7 ── at(8): begin ── ...
  * }}}
  *
  * A batch begins once, though Spark plans an operator twice where a DataFrame is used twice. It is folded
  * once, though Spark may ask for its end several times. Not for several threads.
  *
  * @param begin makes the state of a batch, out of its number and the state of the batch before it. The first
  *              batch of a run has none before it
  */
private[tailrace] final class BatchSequence[B](begin: (Long, Option[B]) => B) {
  private var number = -1L
  private var gathered = Option.empty[B]
  private var folded = -1L

  /** The state of a batch. The batch begins if it isn't the current one. */
  def at(batch: Long): B = of(batch).getOrElse {
    val begun = begin(batch, gathered)
    gathered = Some(begun)
    number = batch
    begun
  }

  /** The state of a batch if it is the current one. */
  def of(batch: Long): Option[B] = gathered.filter(_ => batch == number)

  /** The state of the last batch that has begun. */
  def last: Option[B] = gathered

  /** Folds a batch whose tasks have ended, once. A fold that fails runs again. */
  def end(batch: Long)(fold: B => Unit): Unit = {
    val ending = at(batch)
    if (folded != batch) {
      fold(ending)
      folded = batch
    }
  }
}
