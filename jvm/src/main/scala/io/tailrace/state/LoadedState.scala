package io.tailrace.state

import java.util.concurrent.atomic.AtomicReference

/** One committed version with local copies of its runs. Immutable but for the count of its users, which it passes on to
  * the runs.
  */
final class LoadedState(
    val manifest: Manifest,
    val runs: Seq[LocalRun],
    val checkpointId: Option[String],
    dropped: Map[StoreKind, Long] = Map.empty
) {
  private val byName = runs.map(r => r.name -> r).toMap

  val sections: Seq[LiveSection] =
    manifest.runs.flatMap(run => run.sections.map(new LiveSection(byName(run.name), _)))

  /** Sections with no row after this time were dropped, as far as is known; the least long: nothing is known. */
  def droppedThrough(kind: StoreKind): Long = dropped.getOrElse(kind, Long.MinValue)

  private val kept = new AtomicReference[AnyRef]

  /** Keeps what an operator knows of this version in memory, beside it and as long as it. */
  private[state] def keep(value: AnyRef): Unit = kept.set(value)

  /** What was kept; for one taker, who may change it. */
  private[state] def takeKept(): Option[AnyRef] = Option(kept.getAndSet(null))

  def acquire(): Unit = runs.foreach(_.acquire())
  def release(): Unit = runs.foreach(_.release())
}
