package io.tailrace.sync

import io.tailrace.common.JoinedNames

/** Names of source partitions, made of the values of the columns that tell them apart. No two partitions have one name.
  *
  * {{{
  *   clicks, 7         ->  clicks-7            as Kafka's tools name them
  *   eu-west, 1        ->  eu-west-1
  *   eu, west-1        ->  eu-west%2D1         behind the first column no value has a `-` of its own
  *   null              ->  %
  * }}}
  */
private[sync] object PartitionNames {
  private val Null = "%"

  /** @param values of the columns, in their order; null where a row has none */
  def of(values: Seq[String]): String =
    (first(values.head) +: values.tail.map(further)).mkString(JoinedNames.Separator)

  // Kafka's topics, and names of hosts, stay as they are.
  private def first(value: String): String =
    if (value == null) Null else if (value.startsWith(Null)) s"$Null$value" else value

  private def further(value: String): String =
    if (value == null) Null else JoinedNames.further(value)

  /** The name in files of format 1, where several partitions may have had one. */
  def formerly(values: Seq[String]): String = values.map(String.valueOf(_)).mkString("-")
}
