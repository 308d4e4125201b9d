package io.tailrace.watermark

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.functions.{call_function, col, concat, lit, replace}
import org.apache.spark.sql.types.BinaryType
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.{Errors, JoinedNames}

/** What is made of a record's stamp for as long as its watermark is noted. */
private[tailrace] object StampColumns {
  val Partition = "__tailrace_partition"
  val Low = "__tailrace_low"
  val Share = "__tailrace_share"
  val all: Seq[String] = Seq(Partition, Low, Share)

  def check(
      plan: LogicalPlan,
      stamp: String,
      partition: Seq[String],
      same: (String, String) => Boolean
  ): Unit = {
    if (partition.isEmpty)
      throw Errors.watermarkOptionInvalid("partition", "empty", "one column or more")
    (partition.map("partition" -> _) :+ ("stamp" -> stamp)).foreach { case (argument, name) =>
      val found = plan.output.filter(a => same(a.name, name))
      if (found.size != 1) throw Errors.watermarkColumn(argument, name, found.size, plan.output.map(_.name))
      if (argument == "stamp" && found.head.dataType != BinaryType) {
        throw Errors.watermarkColumnType(argument, name, found.head.dataType.sql, BinaryType.sql)
      }
    }
  }

  /** Values joined by "-", and no two partitions by one name: but for the first value, which topics have to themselves, "-"
    * is written %2D and "%" is written %25. Null if a value is null: nobody knows which partition that is.
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
