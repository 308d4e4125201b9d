package io.tailrace.watermark

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.functions.{call_function, col, concat, lit, replace}
import org.apache.spark.sql.types.BinaryType
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.JoinedNames
import io.tailrace.plan.Columns

/** The columns made of a record's stamp, which exist only while the watermark is noted. */
private[tailrace] object StampColumns {
  val Partition = "__tailrace_partition"
  val Low = "__tailrace_low"
  val Share = "__tailrace_share"
  val all: Seq[String] = Seq(Partition, Low, Share)

  def check(
      plan: LogicalPlan,
      stamp: String,
      partition: Seq[String],
      sameName: (String, String) => Boolean
  ): Unit = {
    if (partition.isEmpty) throw WatermarkOptions.stamped.invalid("partition", "empty", "one column or more")
    val columns = new Columns(WatermarkOptions.stamped, plan.output, sameName)
    partition.foreach(columns.find("partition", _))
    columns.find("stamp", stamp, BinaryType): Unit
  }

  /** The values joined by "-". In all values but the first, "-" is written %2D and "%" is written %25, so that no two partitions
    * share a name. Null if a value is null.
    */
  private def name(values: Seq[Column]): Column = {
    val others = values.tail.map { value =>
      JoinedNames.Escapes.foldLeft(value) { case (text, (from, to)) => replace(text, lit(from), lit(to)) }
    }
    concat(values.head +: others.flatMap(Seq(lit(JoinedNames.Separator), _)): _*)
  }

  def add(frame: DataFrame, stamp: String, partition: Seq[String]): DataFrame = {
    def quoted(name: String) = col(s"`${name.replace("`", "``")}`")
    val parsed = call_function("parse_watermark_stamp", quoted(stamp))
    frame
      .withColumn(Partition, name(partition.map(quoted(_).cast("string"))))
      .withColumn(Low, parsed.getField("low_watermark"))
      .withColumn(
        Share,
        (parsed.getField("completeness") * lit(WatermarkStamp.WholeShare).cast("decimal(19,0)"))
          .cast("bigint")
      )
  }
}
