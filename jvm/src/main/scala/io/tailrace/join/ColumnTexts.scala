package io.tailrace.join

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/** Columns as a text of a checkpoint's settings: `user_id BIGINT, item STRUCT<a: INT, b: STRING>`.
  *
  * Names aren't quoted. They may have spaces, commas and brackets, so a text may have several readings. One
  * with whole types counts first, whose names have no brackets or colons, and then the one with most columns.
  * It may be wrong for a name such as `my int, n`: who reads rows by it has to check that they fit.
  */
object ColumnTexts {
  private val Between = ", "

  def write(columns: Seq[Attribute]): String = columns.map(text).mkString(Between)

  private def text(column: Attribute): String = s"${column.name} ${column.dataType.sql}"

  /** Pairs of columns in the order that two texts have them in.
    *
    * @return none if the texts don't have these pairs
    */
  def ordered(
      pairs: Seq[(Attribute, Attribute)],
      lefts: String,
      rights: String
  ): Option[Seq[(Attribute, Attribute)]] =
    if (pairs.isEmpty) Option.when(lefts.isEmpty && rights.isEmpty)(Nil)
    else {
      // Names may have commas, so another column may seem to be the first one.
      pairs.iterator
        .flatMap { case pair @ (left, right) =>
          for {
            leftRest <- behind(lefts, text(left))
            rightRest <- behind(rights, text(right))
            rest <- ordered(pairs.diff(Seq(pair)), leftRest, rightRest)
          } yield pair +: rest
        }
        .nextOption()
    }

  private def behind(all: String, first: String): Option[String] =
    if (all == first) Some("")
    else Option.when(all.startsWith(first + Between))(all.drop(first.length + Between.length))

  def read(text: String): Option[StructType] = new Reader(text).best

  private final case class Reading(clear: Boolean, columns: List[StructField]) {
    def isBetterThan(other: Reading): Boolean =
      if (clear != other.clear) clear else columns.size > other.columns.size
  }

  /** Finds the best reading behind each comma once: there are as many readings as subsets of commas. */
  private final class Reader(text: String) {
    private val ends = positions(", ").toSeq :+ text.length
    private val types = ends.map(end => end -> typesBefore(end))
    private val behind = mutable.Map.empty[Int, Option[Reading]]

    def best: Option[StructType] = from(0).map(reading => StructType(reading.columns))

    private def from(start: Int): Option[Reading] = behind.getOrElseUpdate(
      start,
      readings(start).reduceOption((one, other) => if (other.isBetterThan(one)) other else one)
    )

    /** The readings whose first column ends at one of the commas, with the best of the rest. */
    private def readings(start: Int): Iterator[Reading] =
      for {
        (end, found) <- types.iterator
        if end > start && found.nonEmpty
        (space, dataType) <- found.iterator
        if space >= start
        rest <- (if (end == text.length) Some(Reading(clear = true, Nil)) else from(end + 2)).iterator
      } yield {
        val name = text.substring(start, space)
        Reading(rest.clear && name.forall(!"<>:".contains(_)), StructField(name, dataType) :: rest.columns)
      }

    /** The types that end at a place, each with the place of the space in front of it. A type has a comma and a
      * space in brackets only.
      */
    private def typesBefore(end: Int): Seq[(Int, DataType)] = {
      val found = Seq.newBuilder[(Int, DataType)]
      var at = end - 1
      var depth = 0
      var quoted = false
      var more = true
      while (more && at >= 0) {
        val char = text.charAt(at)
        if (char == '`') quoted = !quoted
        else if (!quoted) {
          if (char == '>' || char == ')') depth += 1
          else if (char == '<' || char == '(') depth -= 1
          else if (char == ' ' && depth == 0) {
            val dataType = Try(CatalystSqlParser.parseDataType(text.substring(at + 1, end))).toOption
            dataType.foreach(found += at -> _)
            more = at == 0 || text.charAt(at - 1) != ','
          }
        }
        more &&= depth >= 0
        at -= 1
      }
      found.result()
    }

    private def positions(of: String): Iterator[Int] =
      Iterator.iterate(text.indexOf(of))(at => text.indexOf(of, at + 1)).takeWhile(_ >= 0)
  }
}
