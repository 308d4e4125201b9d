package io.tailrace.common

import scala.collection.mutable

import org.apache.spark.sql.{Column, DataFrame}
import org.json4s.JsonAST._
import org.json4s.jackson.JsonMethods

/** The arguments of a call as Python writes them: one JSON object. DataFrames and Columns stand beside it, and are
  * numbers in it:
  *
  * {{{
  *   {"left": {"frame": 0}, "right": {"frame": 1}, "on": [["user", "user"]],
  *    "after": 1800000000, "before": "0 seconds", "max_matches": 3, "salted_keys": [[{"column": 0}]]}
  * }}}
  *
  * Fields have the names of Python's arguments. An argument that is None is absent. Each options class decodes its own
  * fields; [[CallDocument.read]] refuses those that nobody has asked for.
  */
private[tailrace] final class CallDocument private (
    val arguments: Arguments,
    fields: Map[String, JValue],
    frames: Seq[DataFrame],
    columns: Seq[Column]
) {
  import CallDocument._

  private val asked = new mutable.HashSet[String]
  private val inner = new mutable.ArrayBuffer[CallDocument]

  /** A field that each call of this name has. */
  def apply(name: String): Field =
    get(name).getOrElse(throw Errors.callUnknown(s"${arguments.call} without `$name`"))

  def get(name: String): Option[Field] = {
    asked += name
    fields.get(name).map(new Field(name, _))
  }

  private def checkWhole(): Unit = {
    fields.keys.find(!asked(_)).foreach { name =>
      throw Errors.callUnknown(s"${arguments.call} with `$name`")
    }
    inner.foreach(_.checkWhole())
  }

  /** A value of one argument. Each method refuses a value of another type, as the argument's range is refused. */
  final class Field private[CallDocument] (name: String, value: JValue) {

    private def wrong(allowed: String) = arguments.invalid(name, shown(value), allowed)

    def text: String = value match {
      case JString(text) => text
      case _ => throw wrong("a string")
    }

    def flag: Boolean = value match {
      case JBool(flag) => flag
      case _ => throw wrong("true or false")
    }

    /** A number below `-most` is read as `-most`: callers refuse it by their own range. */
    def long(most: Long): Long = {
      val number = value match {
        case JInt(number) if number <= most => Some(number.max(-BigInt(most)).toLong)
        case _ => None
      }
      number.getOrElse(throw wrong(Arguments.between(Long.MinValue, most)))
    }

    def long: Long = long(Long.MaxValue)
    def int: Int = long(Int.MaxValue.toLong).toInt

    /** With the digits that Python has written. */
    def decimal: BigDecimal = value match {
      case JDecimal(number) => number
      case JInt(number) => BigDecimal(number)
      case _ => throw wrong("a number")
    }

    def double: Double = decimal.toDouble

    def duration: TimeSpan = value match {
      case JString(text) => TimeSpan(text)
      case JInt(micros) => TimeSpan.ofMicros(micros)
      case _ => throw wrong("a duration, such as 30 minutes")
    }

    /** A size as Spark reads one: with a unit, or a number of bytes. */
    def size: String = value match {
      case JString(text) => text
      case JInt(bytes) => bytes.toString
      case _ => throw wrong("a number of bytes, or one with a unit such as 128 MB")
    }

    def frame: DataFrame = among("frame", frames)
    def column: Column = among("column", columns)

    private def among[T](kind: String, values: Seq[T]): T = {
      val found = value match {
        case JObject(List((`kind`, JInt(number)))) if number.isValidInt => values.lift(number.toInt)
        case _ => None
      }
      found.getOrElse(throw wrong(s"a $kind"))
    }

    def list: Seq[Field] = value match {
      case JArray(values) => values.map(new Field(name, _))
      case _ => throw wrong("a list")
    }

    def texts: Seq[String] = list.map(_.text)

    /** Key columns, each of the left and of the right side. */
    def pairs: Seq[(String, String)] = list.map { pair =>
      pair.texts match {
        case Seq(left, right) => left -> right
        case _ => throw wrong("pairs")
      }
    }

    /** A value of a call that has no decoder: a string, a whole number, null or a DataFrame. */
    def plain: AnyRef = value match {
      case JString(text) => text
      case JInt(number) if number.isValidLong => Long.box(number.toLong)
      case JNull => null
      case _ => frame
    }

    /** An object with fields of its own, in a list or alone. */
    def document: CallDocument = value match {
      case JObject(within) =>
        val made = new CallDocument(arguments, within.toMap, frames, columns)
        inner += made
        made
      case _ => throw wrong("an object")
    }
  }
}

private[tailrace] object CallDocument {

  /** Reads the arguments of a call.
    *
    * @param call    as users write it: "tailrace.join"
    * @param frames  by their numbers; likewise `columns`
    * @param decoded asks for all fields of the call. One that it doesn't ask for is of another version
    */
  def read[T](call: String, json: String, frames: Seq[DataFrame], columns: Seq[Column])(
      decoded: CallDocument => T
  ): T = JsonMethods.parseOpt(json, useBigDecimalForDouble = true) match {
    case Some(JObject(fields)) =>
      val document = new CallDocument(new Arguments(call), fields.toMap, frames, columns)
      val found = decoded(document)
      document.checkWhole()
      found
    case _ => throw Errors.callUnknown(s"$call with arguments that are no JSON object")
  }

  private def shown(value: JValue): String = value match {
    case JString(text) => text
    case other => JsonMethods.compact(JsonMethods.render(other))
  }
}
