package io.tailrace.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Dataset, SparkSession}

import io.tailrace.common.Arguments
import io.tailrace.label.{JoinOptions, SampledState}
import io.tailrace.plan.Columns

/** What Python's reports over DataFrames ask: they are made of Spark's expressions there, and their arguments are
  * read and refused here as those of all other calls.
  */
private[api] trait PythonReportCalls {
  private def columns(call: String, frame: Dataset[_]): Columns = new Columns(
    new Arguments(call),
    SparkPlans.analyzed(frame).output,
    SparkPlans.session(frame).sessionState.conf.resolver
  )

  /** @param least microseconds
    * @return microseconds
    */
  def microseconds(
      session: SparkSession,
      call: String,
      argument: String,
      text: String,
      least: String
  ): Long = {
    SessionCheck.check(session)
    new Arguments(call).duration(argument, text, least.toLong)
  }

  /** Refuses a column that isn't there. */
  def checkColumn(frame: Dataset[_], call: String, argument: String, name: String): Unit = {
    columns(call, frame).find(argument, name)
    ()
  }

  /** Refuses a column that isn't there, or is no timestamp with a time zone. */
  def checkTime(frame: Dataset[_], call: String, argument: String, name: String): Unit = {
    columns(call, frame).find(argument, name, TimestampType)
    ()
  }

  /** What rows of samples would take in the state of `tailrace.join`.
    *
    * @return rows, bytes before compression and bytes of a file: of the left side, then of the right side
    */
  def sampledState(
      left: Dataset[_],
      right: Dataset[_],
      onLeft: java.util.List[String],
      onRight: java.util.List[String],
      options: java.util.Map[String, String]
  ): java.util.List[Long] = {
    val chosen = new Chosen("tailrace.preflight", options)
    val joined = Tailrace.join(
      left,
      right,
      onLeft.asScala.toSeq.zip(onRight.asScala),
      JoinOptions(chosen("left_time"), chosen("right_time"), chosen("after"), chosen("before"))
    )
    val (ofLeft, ofRight) = SampledState.of(joined)
    Seq(ofLeft, ofRight).flatMap(side => Seq(side.rows, side.bytes, side.fileBytes)).asJava
  }

  /** True if a column of labels holds groups, and not one label a row. Refuses columns that hold neither.
    *
    * @param times the fields of a label that have to be timestamps
    */
  def holdsGroups(frame: Dataset[_], call: String, label: String, times: java.util.List[String]): Boolean = {
    val found = columns(call, frame)
    val column = found.find("labels", label)
    val isLabel: DataType => Boolean = {
      case StructType(fields) =>
        times.asScala.forall(t => fields.exists(f => f.name == t && f.dataType == TimestampType))
      case _ => false
    }
    column.dataType match {
      case ArrayType(element, _) if isLabel(element) => true
      case one if isLabel(one) => false
      case _ =>
        val fields = String.join(" and ", times)
        throw found.wrongType("labels", column, s"a struct, or an array of structs, with TIMESTAMP $fields")
    }
  }
}
