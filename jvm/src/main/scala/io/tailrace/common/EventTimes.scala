package io.tailrace.common

import java.time.Instant

/** Event times as people read them. */
object EventTimes {

  /** @param micros since 1970-01-01 UTC. @return ISO 8601 in UTC */
  def iso(micros: Long): String =
    Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000).toString
}
