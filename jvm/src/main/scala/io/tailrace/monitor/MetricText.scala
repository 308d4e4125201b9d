package io.tailrace.monitor

import java.time.{Duration, Instant}
import java.util.Locale

/** Values of series, for people. The end of a series' name is its unit. */
private[monitor] object MetricText {
  private val Units = Seq("B", "kB", "MB", "GB", "TB")

  def of(series: String, value: Double, now: Instant): String = series.stripSuffix("_total") match {
    case name if name.endsWith("_timestamp_seconds") => time(value, now)
    case name if name.endsWith("_seconds") => "%,.1f s".formatLocal(Locale.ROOT, value)
    case name if name.endsWith("_bytes") => bytes(value)
    case _ if value == value.toLong.toDouble => count(value)
    case _ => "%,.3f".formatLocal(Locale.ROOT, value)
  }

  def count(value: Double): String = "%,d".formatLocal(Locale.ROOT, value.toLong)

  private def bytes(value: Double): String = {
    val power =
      Iterator.iterate(value)(_ / 1000).take(Units.size).takeWhile(_ >= 1000).size.min(Units.size - 1)
    val scaled = value / Math.pow(1000, power.toDouble)
    if (power == 0) s"${count(value)} B" else "%.1f %s".formatLocal(Locale.ROOT, scaled, Units(power))
  }

  private def time(seconds: Double, now: Instant): String = {
    val at = Instant.ofEpochMilli((seconds * 1000).toLong)
    val age = Duration.between(at, now)
    if (age.isNegative) s"$at, ${span(age.negated)} ahead" else s"$at, ${span(age)} ago"
  }

  /** Two units are enough: 3 d 4 h, 5 min 10 s, 7 s. */
  private def span(age: Duration): String = {
    val parts = Seq("d" -> age.toDays, "h" -> age.toHoursPart.toLong, "min" -> age.toMinutesPart.toLong) :+
      ("s" -> age.toSecondsPart.toLong)
    val shown = parts.dropWhile(_._2 == 0).take(2)
    if (shown.isEmpty) "0 s" else shown.map { case (unit, n) => s"$n $unit" }.mkString(" ")
  }
}
