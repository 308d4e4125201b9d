package io.tailrace.common

import java.time.Instant

import scala.language.implicitConversions
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.catalyst.util.{DateTimeConstants, IntervalUtils}
import org.apache.spark.unsafe.types.UTF8String

/** Reads the arguments of one call. Each error names the call.
  *
  * @param call as users write it: "tailrace.join"
  */
private[tailrace] final class Arguments(val call: String) {

  def choice[T <: Choice](argument: String, value: String, allowed: Seq[T]): T =
    allowed
      .find(_.name == value)
      .getOrElse(throw invalid(argument, value, Arguments.oneOf(allowed.map(_.name))))

  /** The name of a directory in the checkpoint. */
  def name(value: String): String =
    matching("name", value, "[A-Za-z0-9_-]{1,100}", "1 to 100 letters, digits, _ and -")

  def matching(argument: String, value: String, pattern: String, allowed: String): String =
    if (value.matches(pattern)) value else throw invalid(argument, value, allowed)

  /** @param or other values that are allowed, for the error
    * @return microseconds
    */
  def duration(argument: String, value: TimeSpan, least: Long = 0, or: String = ""): Long =
    value.micros.filter(_ >= least).getOrElse {
      val bound = if (least == 0) "of zero or more" else s"of ${Durations.text(least)} or more"
      val allowed = s"${or}a duration $bound, such as 30 minutes; months and years have no fixed length"
      throw invalid(argument, value, allowed)
    }

  /** A duration of one millisecond or more, in milliseconds. */
  def millis(argument: String, value: TimeSpan): Long = duration(argument, value, least = 1000) / 1000

  /** @return a number of bytes from `least` to `most` */
  def bytes(argument: String, text: String, least: Long, most: Long): Long =
    Bytes.read(text).filter(value => value >= least && value <= most).getOrElse {
      val range = s"from ${Bytes.text(least)} to ${Bytes.text(most)}"
      throw invalid(argument, text, s"a number of bytes, or one with a unit such as 128 MB, $range")
    }

  def number(argument: String, value: Long, least: Long, most: Long = Long.MaxValue): Long =
    if (value >= least && value <= most) value
    else throw invalid(argument, value, Arguments.between(least, most))

  def invalid(argument: String, value: Any, allowed: String): TailraceAnalysisException =
    Errors.optionInvalid(call, argument, String.valueOf(value), allowed)

  /** @param other an argument that the user has set, too, and that excludes this value */
  def conflict(argument: String, value: Any, other: String, reason: String): TailraceAnalysisException =
    Errors.optionConflict(call, argument, value.toString, other, reason)

  /** @param needed an argument and a value of it, for instance "future_limit='1 hour'" */
  def needs(argument: String, value: Any, needed: String): TailraceAnalysisException =
    Errors.optionNeeds(call, argument, value.toString, needed)
}

private[tailrace] object Arguments {
  def oneOf(values: Seq[String]): String = values.map(v => s"'$v'").mkString(" or ")

  private[common] def between(least: Long, most: Long): String =
    if (least == Long.MinValue) s"a whole number of at most $most"
    else if (most == Long.MaxValue) s"a whole number of $least or more"
    else s"a whole number from $least to $most"
}

/** A duration as the caller of a function gives it. A text stands for itself:
  *
  * {{{
  *   JoinOptions(..., after = "30 minutes", amendFor = Some("1 day"))
  * }}}
  *
  * @param micros none: the text is no duration of a fixed length, or the number is too large
  */
sealed abstract class TimeSpan(val micros: Option[Long]) {
  def isText(other: String): Boolean = false

  /** The text in a checkpoint, which no release changes. */
  private[tailrace] def stored: String = toString
}

object TimeSpan {

  /** As Spark reads durations, for instance "1 hour 500 milliseconds". */
  implicit def apply(text: String): TimeSpan = OfText(text)

  def ofMicros(count: BigInt): TimeSpan = OfMicros(count)

  private final case class OfText(text: String) extends TimeSpan(Durations.read(text)) {
    override def isText(other: String): Boolean = text == other
    override def toString: String = String.valueOf(text)
  }

  private final case class OfMicros(count: BigInt)
      extends TimeSpan(Option.when(count.isValidLong)(count.toLong)) {
    override def toString: String = Durations.words(count)
    override private[tailrace] def stored: String = s"$count microseconds"
  }
}

/** Sizes as Spark reads them: "134217728", "128m", "128 MB", which are 128 times 1,024 times 1,024 bytes. */
private[tailrace] object Bytes {

  /** None if it isn't a size. */
  def read(text: String): Option[Long] =
    Try(JavaUtils.byteStringAsBytes(text.replaceAll("(?<=[0-9])\\s+(?=[A-Za-z])", ""))).toOption

  private val Units = Seq("GB" -> (1L << 30), "MB" -> (1L << 20), "kB" -> (1L << 10))

  /** Sizes as people write them: 128 MB. */
  def text(bytes: Long): String =
    Units
      .collectFirst { case (unit, size) if bytes >= size && bytes % size == 0 => s"${bytes / size} $unit" }
      .getOrElse(s"$bytes bytes")
}

/** Durations as Spark reads them: "30 minutes", "1 hour 500 milliseconds", "interval 2 days". */
private[tailrace] object Durations {

  /** @return microseconds; none if it isn't a duration of a fixed length */
  def read(text: String): Option[Long] =
    try {
      val interval = IntervalUtils.stringToInterval(UTF8String.fromString(text))
      val days = Math.multiplyExact(interval.days.toLong, DateTimeConstants.MICROS_PER_DAY)
      if (interval.months != 0) None else Some(Math.addExact(days, interval.microseconds))
    } catch { case NonFatal(_) => None }

  private val Units = Seq(
    ("d", "day", 86400L * 1000 * 1000),
    ("h", "hour", 3600L * 1000 * 1000),
    ("min", "minute", 60L * 1000 * 1000),
    ("s", "second", 1000L * 1000),
    ("ms", "millisecond", 1000L),
    ("us", "microsecond", 1L)
  )

  /** Microseconds as people write them: 1 h 30 min. */
  def text(micros: Long): String = {
    val counted = parts(micros).map { case (count, unit, _) => s"$count $unit" }
    if (counted.isEmpty) "0 s" else counted.mkString(" ")
  }

  /** Microseconds as [[read]] and Spark read them: 1 hour 30 minutes. One duration always has the same words. Each
    * number of a negative one has the sign: -1 hour -30 minutes.
    */
  def words(micros: BigInt): String = {
    val counted = parts(micros).map { case (count, _, unit) =>
      s"$count $unit${if (count.abs == 1) "" else "s"}"
    }
    if (counted.isEmpty) "0 seconds" else counted.mkString(" ")
  }

  /** The number of each unit, without those of which there is none. */
  private def parts(micros: BigInt): Seq[(BigInt, String, String)] =
    Units
      .foldLeft((micros, Vector.empty[(BigInt, String, String)])) {
        case ((rest, parts), (short, unit, length)) =>
          val count = rest / length
          (rest % length, if (count == 0) parts else parts :+ ((count, short, unit)))
      }
      ._2
}

/** Event times as people read them. */
object EventTimes {

  /** @param micros since 1970-01-01 UTC. @return ISO 8601 in UTC */
  def iso(micros: Long): String =
    Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000).toString
}

/** A value of a closed set, by the name under which users write it. */
trait Choice {
  def name: String
}

/** The values of all options `on_<event>`, which decide about rows that aren't ordinary ones. */
sealed abstract class Policy(val name: String) extends Choice

object Policy {

  /** The row is left out, and counted. */
  case object Drop extends Policy("drop")

  /** The row is emitted with the reason in its column `_mark`. */
  case object Mark extends Policy("mark")

  /** The row is emitted as an ordinary one. */
  case object Emit extends Policy("emit")

  /** The query ends with an error that names the row, the partition or the limit. */
  case object Fail extends Policy("fail")

  /** The query waits. */
  case object Pause extends Policy("pause")

  /** A partition doesn't count until it is back. */
  case object Exclude extends Policy("exclude")

  /** An event time counts as if it were at the limit. */
  case object Clamp extends Policy("clamp")

  val onLate: Seq[Policy] = Seq(Drop, Mark)
  val onReplay: Seq[Policy] = Seq(Drop, Mark)
  val onDuplicate: Seq[Policy] = Seq(Emit, Drop, Mark)
  val onUnmatchedRight: Seq[Policy] = Seq(Drop, Emit)
  val onFuture: Seq[Policy] = Seq(Clamp, Mark, Fail)
  val onStall: Seq[Policy] = Seq(Pause, Exclude, Fail)
  val onLimit: Seq[Policy] = Seq(Fail, Drop)
  val onCycle: Seq[Policy] = Seq(Fail, Drop, Mark)

  /** The option that [[Mark]] and [[Fail]] of future rows need. */
  private[tailrace] val FutureLimit = "future_limit, for instance future_limit='1 hour'"

  /** The last event time that is believed in a batch, in microseconds.
    *
    * @param limitMicros ahead of the batch's clock; none: any time is believed
    */
  private[tailrace] def believedThrough(limitMicros: Option[Long], clockMs: Long): Long =
    limitMicros.fold(Long.MaxValue)(Math.addExact(Math.multiplyExact(clockMs, 1000L), _))
}
