package io.tailrace.ops.inspect

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.expressions.{Expression, Literal, NamedReference}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.Platform

import io.tailrace.common.{Errors, Side, TailraceAnalysisException}
import io.tailrace.join.{JoinCheckpoint, KeyPartitions}
import io.tailrace.state.{KeyEncoder, RowLayout, RunCursor}

/** The part of a query's filters that leaves out sections, pages or partitions.
  *
  * {{{
  *   time >= '12:00' AND key.user_id = 7 AND key.item_id IN (42, 43)
  *   from: 12:00     keys: user_id -> 7, item_id -> 42 43               two keys, each in one partition
  * }}}
  *
  * @param from       the earliest time, in microseconds, inclusive
  * @param through    the latest, inclusive
  * @param partitions those of the state; none: all
  * @param operators  the same of operators
  * @param keys       values of key columns, in Spark's own types, by the column's name
  */
private[inspect] final case class AskedRows(
    left: Boolean = true,
    right: Boolean = true,
    from: Long = Long.MinValue,
    through: Long = Long.MaxValue,
    partitions: Option[Set[Int]] = None,
    operators: Option[Set[Long]] = None,
    keys: Map[String, Seq[Any]] = Map.empty
) {
  import AskedRows._

  /** @param columns of the rows that are asked for */
  def and(predicate: Predicate, columns: StateColumns): AskedRows = predicate match {
    case Compared(Seq("time"), name, value, dataType) if dataType == columns.time =>
      andTime(name, value.asInstanceOf[Long])
    case AnyOf(path, values) => andAnyOf(path, values, columns)
    case Both(one, other) => and(one, columns).and(other, columns)
    case _ => this
  }

  private def andTime(name: String, time: Long): AskedRows = name match {
    case "=" | "<=>" => andTime(">=", time).andTime("<=", time)
    case ">" => if (time == Long.MaxValue) this else andTime(">=", time + 1)
    case "<" => if (time == Long.MinValue) this else andTime("<=", time - 1)
    case ">=" => copy(from = Math.max(from, time))
    case "<=" => copy(through = Math.min(through, time))
    case _ => this
  }

  private def andAnyOf(path: Seq[String], values: Seq[Value], columns: StateColumns): AskedRows = path match {
    case Seq("side") =>
      val sides = values.map(_.of.toString)
      copy(left = left && sides.contains(Side.Left.name), right = right && sides.contains(Side.Right.name))
    case Seq("partition") =>
      val of = values.map(_.of).collect { case number: Int => number }.toSet
      copy(partitions = Some(partitions.fold(of)(_.intersect(of))))
    case Seq("operator") =>
      val of = values.map(_.of).collect { case number: Long => number }.toSet
      copy(operators = Some(operators.fold(of)(_.intersect(of))))
    case Seq("key", name) => andKey(name, values, columns.key)
    // A right row has no left one, so the filter asks for left rows.
    case Seq("left", name)
        if columns.left.fields.filter(_.name == name).toSeq == columns.key.filter(_.name == name) =>
      andKey(name, values, columns.key).copy(right = false)
    case _ => this
  }

  private def andKey(name: String, values: Seq[Value], key: StructType): AskedRows = {
    val isOfKey = key.exists(column => column.name == name && values.forall(_.dataType == column.dataType))
    // Of two filters of one column the first is enough: those who look find a row or two more.
    if (isOfKey && !keys.contains(name)) copy(keys = keys + (name -> values.map(_.of))) else this
  }
}

private[inspect] object AskedRows {

  /** The filters that Spark has to ask of each row that is read. It would generate code anew for each key.
    *
    * @param isLookup whether the rows of the keys alone are read
    */
  def unanswered(predicates: Seq[Predicate], columns: StateColumns, isLookup: Boolean): Seq[Predicate] = {
    val ofKeys = predicates.collect { case AnyOf(Seq("key" | "left", name), _) => name }
    predicates.filterNot {
      case Compared(Seq("time"), "=" | "<=>" | ">=" | "<=", _, dataType) => dataType == columns.time
      case Compared(Seq("time"), ">", time: Long, dataType) =>
        dataType == columns.time && time != Long.MaxValue
      case Compared(Seq("time"), "<", time: Long, dataType) =>
        dataType == columns.time && time != Long.MinValue
      case AnyOf(Seq("side" | "partition" | "operator"), _) => true
      case AnyOf(Seq("key" | "left", name), _) =>
        // Of two filters of one column, only the first one was taken.
        isLookup && columns.key.exists(_.name == name) && ofKeys.count(_ == name) == 1
      case _ => false
    }
  }

  /** A value that isn't null. */
  final case class Value(of: Any, dataType: DataType)

  private object Both {
    def unapply(predicate: Predicate): Option[(Predicate, Predicate)] =
      (predicate.name, predicate.children) match {
        case ("AND", Array(one: Predicate, other: Predicate)) => Some(one -> other)
        case _ => None
      }
  }

  private object Known {
    def unapply(expression: Expression): Option[Value] = expression match {
      case literal: Literal[_] if literal.value != null => Some(Value(literal.value, literal.dataType))
      case _ => None
    }
  }

  private object Column {
    def unapply(expression: Expression): Option[Seq[String]] = expression match {
      case named: NamedReference => Some(named.fieldNames.toSeq)
      case _ => None
    }
  }

  /** A column, a comparison and a value: the column stands first, or is put there. */
  private object Compared {
    private val Turned = Map("=" -> "=", "<=>" -> "<=>", "<" -> ">", "<=" -> ">=", ">" -> "<", ">=" -> "<=")

    def unapply(predicate: Predicate): Option[(Seq[String], String, Any, DataType)] =
      predicate.children match {
        case Array(Column(path), Known(value)) => Some((path, predicate.name, value.of, value.dataType))
        case Array(Known(value), Column(path)) =>
          Turned.get(predicate.name).map((path, _, value.of, value.dataType))
        case _ => None
      }
  }

  /** A column that has one of some values. */
  private object AnyOf {
    def unapply(predicate: Predicate): Option[(Seq[String], Seq[Value])] = predicate match {
      case Compared(path, "=" | "<=>", value, dataType) => Some(path -> Seq(Value(value, dataType)))
      case _ =>
        (predicate.name, predicate.children.toSeq) match {
          case ("IN", Column(path) +: values) =>
            // A null among them equals nothing.
            val known = values.collect { case literal: Literal[_] => literal }
            Option.when(known.size == values.size)(path -> known.collect { case Known(value) => value })
          case ("OR", Seq(one: Predicate, other: Predicate)) =>
            unapply(one).zip(unapply(other)).collect {
              case ((path, values), (otherPath, others)) if path == otherPath => path -> (values ++ others)
            }
          case _ => None
        }
    }
  }
}

/** The keys, encoded, of which a query asks for the rows in one partition.
  *
  * {{{
  *   key.user_id IN (7, 8)                     partition 1: 7 in part 0    partition 3: 7 in part 1, 8
  *   salted key 7 in two parts                    left rows of 7 are in one of both, right ones in both
  * }}}
  *
  * @param left  of left rows
  * @param right of right rows: the first parts of salted keys
  */
private[inspect] final case class KeyLookup(left: Seq[Array[Byte]], right: Seq[Array[Byte]]) {
  def of(side: Side): Seq[Array[Byte]] = side.of(left, right)
}

private[inspect] object KeyLookup {

  /** With more keys than this, all rows are read. */
  private val MostKeys = 10000

  /** The lookup in each partition, if the filters give all columns of the key. Other partitions have no
    * row of these keys.
    */
  def of(columns: StateColumns, asked: AskedRows, partitions: Int): Option[Map[Int, KeyLookup]] = {
    val wanted = columns.key.map { column =>
      if (column.name == JoinCheckpoint.Part) columns.parts.map(0 until _) else asked.keys.get(column.name)
    }
    val count =
      wanted.flatten.foldLeft(1L)((product, values) => Math.min(MostKeys + 1L, product * values.size))
    Option.when(wanted.forall(_.nonEmpty) && count <= MostKeys) {
      val types = columns.key.map(_.dataType)
      val encoder = new KeyEncoder(types.indices.toArray, types.toArray)
      val places = new KeyPartitions(types, Seq(partitions))
      val keys = wanted.flatten.foldLeft(Seq(Vector.empty[Any]))((keys, values) =>
        keys.flatMap(k => values.map(k :+ _))
      )
      val placed = keys.map { values =>
        val length = encoder.encode(new GenericInternalRow(values.toArray))
        val key = Arrays.copyOf(encoder.bytes, length)
        (places.of(key).getInt(0), key, columns.part.forall(values(_) == 0))
      }
      placed.groupBy(_._1).map { case (partition, found) =>
        val distinct = found
          .sortWith((a, b) => Arrays.compareUnsigned(a._2, b._2) < 0)
          .foldLeft(Vector.empty[(Array[Byte], Boolean)]) { case (before, (_, key, isFirst)) =>
            if (before.lastOption.exists(last => Arrays.equals(last._1, key))) before
            else before :+ (key -> isFirst)
          }
        partition -> KeyLookup(distinct.map(_._1), distinct.filter(_._2).map(_._1))
      }
    }
  }
}

/** Keys that are looked for in the sections of a side. */
private[inspect] final class SoughtKeys(sorted: Seq[Array[Byte]]) {
  private val at = Platform.BYTE_ARRAY_OFFSET.toLong

  // Rows without values, as cursors compare them.
  private val rows = sorted.map(key => RowLayout.ofKey(key, key.length)).toArray

  /** True if the row has one of the keys. */
  def has(row: RunCursor): Boolean = {
    var (low, high) = (0, rows.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      val compared = row.compareKey(rows(middle), at)
      if (compared == 0) return true
      if (compared < 0) high = middle else low = middle + 1
    }
    false
  }

  /** Goes through a section that is in the order of keys. */
  final class Walk(row: RunCursor) {
    private var next = 0

    /** Goes to the first row with one of the keys. */
    def first(): Unit = if (rows.nonEmpty) {
      row.seekKey(rows(0), at)
      settle()
    }

    /** Goes on from where the cursor is. @return whether there is a row */
    def settle(): Boolean = {
      var compared = 1
      while (isInside && { compared = row.compareKey(rows(next), at); compared != 0 })
        if (compared < 0) row.advanceTo(rows(next), at) else next += 1
      isInside
    }

    private def isInside: Boolean = row.isValid && next < rows.length
  }
}

/** The options of `tailrace-state`.
  *
  * @param path     the checkpoint
  * @param of       the contents that are read
  * @param version  that of the newest completed batch by default
  * @param from     the version that it is compared with
  * @param operator number or name of an operator
  */
private[inspect] final case class StateOptions(
    path: String,
    of: StateContent,
    version: Option[Long],
    from: Option[Long],
    operator: Option[String]
)

private[inspect] object StateOptions {
  private val Reader = """spark.read.format("tailrace-state")"""
  private val Known = Set("path", "of", "version", "from_version", "operator")

  def read(options: CaseInsensitiveStringMap): StateOptions = {
    import scala.jdk.CollectionConverters._
    options.keySet.asScala.find(!Known(_)).foreach { other =>
      throw invalid(
        other,
        options.get(other),
        s"left out; the options are ${Known.-("path").toSeq.sorted.mkString(", ")}"
      )
    }
    def text(option: String) = Option(options.get(option))
    def number(option: String) = text(option).map { value =>
      value.toLongOption.getOrElse(throw invalid(option, value, "a whole number"))
    }
    val path =
      text("path").getOrElse(throw invalid("path", "", "the checkpoint of a query: .load(CHECKPOINT)"))
    val of = text("of").fold[StateContent](StateContent.Rows) { name =>
      StateContent.all
        .find(_.name == name.toLowerCase)
        .getOrElse(throw invalid("of", name, s"one of ${StateContent.all.map(_.name).mkString(", ")}"))
    }
    val (version, from) = (number("version"), number("from_version"))
    from.foreach { before =>
      if (of != StateContent.Rows)
        throw Errors.optionConflict(
          Reader,
          "from_version",
          before.toString,
          "of",
          s"${of.name} have no changes"
        )
      if (version.exists(_ < before))
        throw invalid("from_version", before.toString, s"at most `version`, ${version.get}")
    }
    StateOptions(path, of, version, from, text("operator"))
  }

  def invalid(option: String, value: String, allowed: String): TailraceAnalysisException =
    Errors.optionInvalid(Reader, option, value, allowed)
}

/** The contents of a query's operators, of which the format shows one at a time.
  *
  * @param name of the option `of`
  */
private[inspect] sealed abstract class StateContent(val name: String)

private[inspect] object StateContent {
  case object Rows extends StateContent("rows")
  case object Marks extends StateContent("marks")
  case object Hosts extends StateContent("hosts")
  case object Partitions extends StateContent("partitions")
  case object InFlight extends StateContent("rows_in_flight")

  val all: Seq[StateContent] = Seq(Rows, Marks, Hosts, Partitions, InFlight)
}
