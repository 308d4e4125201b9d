package io.tailrace.driver

import io.tailrace.common.{Durations, EventTimes}

/** Explains in sentences which inputs hold back a watermark. */
object WatermarkText {
  import EventTimes.iso

  def of(facts: WatermarkFacts): Seq[String] =
    Seq(now(facts)) ++ known(facts) ++ supposed(facts) ++ facts.sources.flatMap(source(_, facts))

  private def now(facts: WatermarkFacts): String = facts.now match {
    case Some(time) => s"The watermark is ${iso(time)}."
    case None => "There is no watermark yet."
  }

  /** By the watermarks of the streams. */
  private def known(facts: WatermarkFacts): Option[String] = {
    val (come, missing) = facts.streams.partition(_.time.nonEmpty)
    val order = come.sortBy(_.time)
    def stream(facts: StreamFacts) = s"`${facts.name}` is at ${iso(facts.time.get)}"
    if (missing.nonEmpty && !facts.takesGreatest) {
      val names = missing.map(stream => s"`${stream.name}`").mkString(", ")
      Some(s"The stream of $names holds it: no row of it has come since the query started.")
    } else
      (if (facts.takesGreatest) order.reverse else order) match {
        case holder +: (others @ _ +: _) if others.head.time != holder.time =>
          val rank = if (facts.takesGreatest) "furthest, which counts" else "furthest behind"
          Some(
            s"The stream of `${holder.name}` holds it, the one that is $rank: " +
              s"${(holder +: others).map(stream).mkString(", ")}."
          )
        case holder +: Seq() => Some(s"It is that of the only stream, `${holder.name}`.")
        case _ => None
      }
  }

  /** By the newest rows, which may be older than the newest that have been read. */
  private def supposed(facts: WatermarkFacts): Option[String] =
    facts.sides.sortBy(_.time) match {
      case Seq(slow, fast) if facts.streams.isEmpty && slow.time != fast.time =>
        def newest(side: StreamFacts) =
          side.time.fold(s"the state has no ${side.name} row")(time =>
            s"the newest ${side.name} row is of ${iso(time)}"
          )
        val holder = if (facts.takesGreatest) fast else slow
        val delay =
          for (now <- facts.now; time <- holder.time if time >= now)
            yield s" The watermark is ${Durations.text(time - now)} behind that, which may be its delay."
        Some(
          s"Supposedly the ${holder.name} side holds it: ${newest(holder)}, and ${newest(
              if (holder eq slow) fast else slow
            )}.${delay.getOrElse("")} The state doesn't " +
            "show rows that were filtered, late or without a key."
        )
      case _ => None
    }

  private def source(source: SourceFacts, facts: WatermarkFacts): Seq[String] = {
    import source._
    val low = source.low.fold("no low watermark yet")(time => s"the low watermark ${iso(time)}")
    val head = s"The $hosts hosts of the watermark '$name' have $low"
    val missing = Option.when(unseen._2 > 0) {
      s"no row has come of ${counted(unseen._2, "host")}: ${some(unseen._1, unseen._2)}"
    }
    // Hosts before the low watermark aren't waited for, or were added since.
    val (passedBy, waited) = slowest.partition { case (_, time) => source.low.exists(time < _) }
    val holder = waited.headOption.map { case (host, time) =>
      val behind = facts.now.filter(_ => source.low.contains(time)).fold("")(_ => ", and holds it")
      s"host $host has been read up to ${iso(time)}$behind"
    }
    val lagging = passedBy.headOption.map { case (host, time) =>
      s"it doesn't wait for host $host, which is at ${iso(time)}"
    }
    val decided = server.filter(identity).map(_ => "the watermark server decides on it")
    val past = Option
      .when(server.isEmpty && holder.nonEmpty) {
        waited.headOption.flatMap { case (_, time) =>
          source.low.filter(low => unseen._2 == 0 && passedBy.isEmpty && low < time).map { _ =>
            "all hosts have passed it, so supposedly a watermark server holds it for others"
          }
        }
      }
      .flatten
    val sentence = (Some(head) ++ missing ++ holder ++ lagging ++ decided ++ past).mkString("; ")
    s"$sentence." +: said.map(text => s"The watermark server says: $text.")
  }

  private def some(names: Seq[String], all: Int): String =
    names.mkString(", ") + (if (all > names.size) s" and ${all - names.size} more" else "")

  /** `1 row`, `2 rows`. */
  def counted(number: Long, what: String): String =
    if (number == 1) s"1 $what" else s"$number ${what}s"
}
