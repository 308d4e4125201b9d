package io.tailrace.inspect

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.sources._
import org.apache.spark.sql.tailrace.SparkSession
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Row, SQLContext}
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.Errors

/** `spark.read.format("tailrace-state").load(CHECKPOINT)`: the rows that wait in a join, decoded. The query may
  * run meanwhile.
  *
  * {{{
  *   version 9 of operator 0    --> a task a partition
  *     manifest of partition 1  --> the runs that may have rows of the side and the times that are asked for
  *                              --> (0, 1, "left", 12:03:49, {user 7}, {7, 12:03:49, ...}, null)
  * }}}
  *
  * Options: `version` (that of the newest completed batch by default) and `operator`, its number, where the
  * query has several joins. The version is chosen by `load`. A running query deletes old ones, so a frame
  * that is used later may name a file that is gone.
  */
final class StateSource extends DataSourceRegister with RelationProvider {
  override def shortName(): String = "tailrace-state"

  override def createRelation(context: SQLContext, parameters: Map[String, String]): BaseRelation = {
    val checkpoint =
      parameters.getOrElse("path", throw invalid("path", "", "the checkpoint of a query: .load(CHECKPOINT)"))
    val conf = context.sparkSession.asInstanceOf[SparkSession].sessionState.newHadoopConf()
    val found = SparkCheckpoint.readable(checkpoint) {
      new CheckpointInspection(checkpoint, conf).joins(number(parameters, "version"))
    }
    val join = number(parameters, "operator") match {
      case None if found.size == 1 => found.head
      case chosen =>
        found.find(join => chosen.contains(join.operator)).getOrElse {
          val names = found.map(join => s"${join.operator} (${join.name})").mkString(", ")
          throw invalid("operator", chosen.fold("")(_.toString), s"one of $names")
        }
    }
    new StateRelation(
      context,
      join,
      StateColumns.of(join.bound, join.partitions.head.directory),
      new SerializableConfiguration(conf)
    )
  }

  private def number(parameters: Map[String, String], option: String): Option[Long] =
    parameters.get(option).map { text =>
      text.toLongOption.getOrElse(throw invalid(option, text, "a whole number"))
    }

  private def invalid(option: String, value: String, allowed: String) =
    Errors.optionInvalid(s"""spark.read.format("${shortName()}")""", option, value, allowed)
}

private final class StateRelation(
    override val sqlContext: SQLContext,
    join: JoinVersion,
    columns: StateColumns,
    conf: SerializableConfiguration
) extends BaseRelation
    with PrunedFilteredScan {
  override def schema: StructType = columns.schema

  // They are rows of Spark's own kind.
  override def needConversion: Boolean = false

  override def buildScan(required: Array[String], filters: Array[Filter]): RDD[Row] = {
    val range = filters.foldLeft(StateRange.All)(_.and(_))
    val context = sqlContext.sparkContext
    val partitions = join.partitions
    context
      .parallelize(partitions, Math.max(1, partitions.size))
      .mapPartitions(StateRows.of(join.operator, columns, required.toSeq, range, conf))
      .asInstanceOf[RDD[Row]]
  }
}

/** The rows that a query's filters ask for, as far as a section tells. Spark asks the filters again of each row.
  *
  * @param from   the least time, in microseconds
  * @param through the greatest
  */
private[inspect] final case class StateRange(left: Boolean, right: Boolean, from: Long, through: Long) {
  import StateRange.micros

  def and(filter: Filter): StateRange = filter match {
    case EqualTo("side", side) => copy(left = left && side == Side.Left, right = right && side == Side.Right)
    case EqualTo("time", time) => and(GreaterThanOrEqual("time", time)).and(LessThanOrEqual("time", time))
    case GreaterThan("time", time) => and(GreaterThanOrEqual("time", time))
    case GreaterThanOrEqual("time", time) => micros(time).fold(this)(t => copy(from = Math.max(from, t)))
    case LessThan("time", time) => and(LessThanOrEqual("time", time))
    case LessThanOrEqual("time", time) => micros(time).fold(this)(t => copy(through = Math.min(through, t)))
    case And(one, other) => and(one).and(other)
    case _ => this
  }
}

private[inspect] object StateRange {
  val All: StateRange = StateRange(left = true, right = true, Long.MinValue, Long.MaxValue)

  /** A time with zone; without one it is compared with the times as they are in the state. */
  private def micros(time: Any): Option[Long] = {
    import org.apache.spark.sql.catalyst.util.DateTimeUtils
    time match {
      case time: java.sql.Timestamp => Some(DateTimeUtils.fromJavaTimestamp(time))
      case time: java.time.Instant => Some(DateTimeUtils.instantToMicros(time))
      case time: java.time.LocalDateTime => Some(DateTimeUtils.localDateTimeToMicros(time))
      case _ => None
    }
  }
}

private[inspect] object Side {
  val Left = "left"
  val Right = "right"
}
