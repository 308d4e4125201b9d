package io.tailrace.ops.backfill

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.{CheckedText, DurableFiles}
import io.tailrace.common.Errors.{instant, refuse}
import io.tailrace.common.{TailraceAnalysisException, TimeSpan}

/** A stream of a backfill.
  *
  * @param time  the column by which its table is sliced
  * @param until the time from which on rows are live, in microseconds; none: all rows of the table are history
  */
final case class BackfilledStream(name: String, time: String, until: Option[Long])

/** The slices and streams of a backfill. A start after a crash reads the same slices.
  *
  * @param step   how long a slice is, in microseconds
  * @param starts see [[Slices]]
  */
final case class BackfillPlan(streams: Seq[BackfilledStream], step: Long, starts: IndexedSeq[Long]) {

  /** The first difference of another plan, for people. */
  private[backfill] def difference(asked: BackfillPlan): Option[String] = {
    def names(plan: BackfillPlan) = plan.streams.map(_.name).sorted.mkString(", ")
    def end(of: Option[Long]) = of.fold("none")(instant)
    if (names(this) != names(asked)) Some(s"the streams ${names(this)}, not ${names(asked)}")
    else
      streams.sortBy(_.name).zip(asked.streams.sortBy(_.name)).collectFirst {
        case (begun, other) if begun.time != other.time =>
          s"time ${begun.time} for '${begun.name}', not ${other.time}"
        case (begun, other) if begun.until != other.until =>
          s"until ${end(begun.until)} for '${begun.name}', not ${end(other.until)}"
      } orElse Option.when(step != asked.step) {
        s"steps of ${TimeSpan.ofMicros(step)}, not ${TimeSpan.ofMicros(asked.step)}"
      }
  }
}

/** The description of a backfill, `tailrace-backfill.json` in the query's checkpoint. It is written before the first
  * micro-batch and stays, so that a later start knows where the live rows begin.
  */
private[backfill] final class BackfillFile(root: Path, conf: Configuration) {
  import BackfillFile._

  private val files = DurableFiles.in(root, conf)
  private val path = new Path(root, Name)

  def find: Option[BackfillPlan] =
    files.find(path).map(checked.decode(_, path.toString)(Serialization.read[BackfillPlan]))

  /** @return the plan that counts: of two that begin at once, one */
  def write(plan: BackfillPlan): BackfillPlan = {
    files.write(path)(_.write(checked.encode(Serialization.write(plan))))
    find.get
  }
}

private[backfill] object BackfillFile {
  private val Name = "tailrace-backfill.json"
  private val checked = new CheckedText("tailrace-backfill", "the description of a backfill", 1, 1)
  private implicit val formats: Formats = Serialization.formats(NoTypeHints)
}

private[tailrace] object BackfillErrors {

  def otherQuery(checkpoint: String): TailraceAnalysisException =
    refuse("TAILRACE_BACKFILL_OTHER_QUERY", "checkpoint" -> checkpoint)

  /** @param difference "until 2026-03-01T00:00:00Z for 'clicks', not none" */
  def changed(checkpoint: String, difference: String): TailraceAnalysisException =
    refuse("TAILRACE_BACKFILL_CHANGED", "checkpoint" -> checkpoint, "difference" -> difference)

  def unfinished(checkpoint: String, read: Int, of: Int): TailraceAnalysisException =
    refuse("TAILRACE_BACKFILL_UNFINISHED", "checkpoint" -> checkpoint, "read" -> read, "slices" -> of)

  def namedSources(): TailraceAnalysisException = refuse("TAILRACE_BACKFILL_NAMED_SOURCES")

  /** @param source its node in the plan, for people */
  def otherSource(source: String): TailraceAnalysisException =
    refuse("TAILRACE_BACKFILL_OTHER_SOURCE", "source" -> source)

  def sink(name: String): TailraceAnalysisException = refuse("TAILRACE_BACKFILL_SINK", "sink" -> name)
}
