package io.tailrace.why

/** The content of `tailrace why --json`. `jvm/docs/formats.md` describes the fields. Times are ISO 8601 in UTC,
  * and None if they aren't known.
  *
  * @param text who holds the watermark, and what else is known, in sentences
  * @param key  that is asked for
  */
final case class WhyReport(
    checkpoint: String,
    batch: Long,
    batchTime: Option[String],
    version: Long,
    watermark: Option[String],
    text: Seq[String],
    key: Option[String],
    operators: Seq[OperatorWaits]
)

/** The rows that wait in a join.
  *
  * @param text what they wait for, in sentences
  * @param rows the oldest, or those of the key
  * @param more how many rows of the key there are beside these
  */
final case class OperatorWaits(
    operator: Long,
    name: String,
    text: Seq[String],
    rows: Seq[WaitingRow],
    more: Long = 0
)

/** @param key     by the left side's names; None: a null is among its columns
  * @param since   the micro-batch that read the row
  * @param leaves  the watermark at which it is emitted or is given up; of a synced join's left row, how far the
  *                right side has to be read
  * @param matches rows of the other side that it matches so far; None of right rows
  */
final case class WaitingRow(
    partition: Int,
    side: String,
    time: String,
    key: Option[Map[String, String]],
    since: Since,
    leaves: Option[String],
    matches: Option[Long]
)

/** @param time when the batch began; None: Spark's offset log doesn't go back so far */
final case class Since(batch: Long, time: Option[String])
