package io.tailrace.ops.inspect

import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.expressions.{Expression, Literal, NamedReference}
import org.apache.spark.sql.types.{DataType, StructType}

import io.tailrace.common.Side

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
