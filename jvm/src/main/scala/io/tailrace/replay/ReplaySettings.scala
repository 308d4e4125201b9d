package io.tailrace.replay

/** @param name          of the filter's directory in the checkpoint
  * @param disorder      how far below the mark, in offsets, a record may come and still be told from its replay
  * @param marksReplays  replays come out too, marked
  * @param forgetAfterMs an origin without a record for longer than this has no mark any more; none: marks are for ever
  */
final case class ReplaySettings(
    name: String,
    disorder: Int = 0,
    marksReplays: Boolean = false,
    forgetAfterMs: Option[Long] = None
) {

  /** Origins that were last seen before the time that this returns are forgotten.
    *
    * @param clockMs the time; `Long.MinValue` if none has been seen yet
    */
  def forgottenBefore(clockMs: Long): Long =
    forgetAfterMs.fold(Long.MinValue)(after =>
      if (clockMs < Long.MinValue + after) Long.MinValue else clockMs - after
    )
}
