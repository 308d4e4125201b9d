package io.tailrace.driver

/** What the driver gathers of one micro-batch after the other, for one operator in one run.
  *
  * {{{
  *   at(7): begin ── tasks of batch 7 ── end(7): fold ── commit log 7 ── at(8): begin ── ...
  * }}}
  *
  * A batch is begun once, though Spark plans an operator twice where a DataFrame is used twice. It is folded once, though
  * Spark may ask for its end several times. Not for several threads.
  *
  * @param begin makes what is gathered of a batch: its number, and what was gathered of the batch before it, which the
  *              first batch of a run doesn't have
  */
private[tailrace] final class BatchSequence[B](begin: (Long, Option[B]) => B) {
  private var number = -1L
  private var gathered = Option.empty[B]
  private var folded = -1L

  /** What is gathered of a batch, which begins if it is not the current one. */
  def at(batch: Long): B = of(batch).getOrElse {
    val begun = begin(batch, gathered)
    gathered = Some(begun)
    number = batch
    begun
  }

  /** The same for the current batch, and nothing for others. */
  def of(batch: Long): Option[B] = gathered.filter(_ => batch == number)

  /** Of the last batch that has begun. */
  def last: Option[B] = gathered

  /** Folds a batch whose tasks have ended, if that isn't done. A fold that fails isn't done. */
  def end(batch: Long)(fold: B => Unit): Unit = {
    val ending = at(batch)
    if (folded != batch) {
      fold(ending)
      folded = batch
    }
  }
}
