package io.tailrace.erase

import java.util.Arrays

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Predicate, RowOrdering, UnsafeProjection}
import org.apache.spark.sql.types.DataType

/** True if a row is to be erased. */
private[erase] trait RowTest extends Serializable {

  /** For one task. */
  def begin(): InternalRow => Boolean
}

/** @param condition bound to the row's columns. A row for which it is null stays
  * @param text      as the user has written it
  */
private[erase] final class ConditionTest(condition: Expression, text: String) extends RowTest {
  override def begin(): InternalRow => Boolean = {
    val predicate = Predicate.create(condition)
    predicate.initialize(0)
    row =>
      try predicate.eval(row)
      catch {
        // In ANSI mode `user_id = 'seven'` fails at the first row.
        case NonFatal(e: SparkThrowable) =>
          throw EraseErrors.conditionInvalid(text, s"it fails at a row: ${e.getMessage.linesIterator.next()}")
      }
  }
}

/** True if some columns have the values of one of the subjects, as SQL compares them: strings by their collation, and
  * two zeros and all NaN are equal, also within structs and arrays.
  *
  * @param columns  bound to the row's
  * @param subjects in the order of [[SubjectTest.order]]
  */
private[erase] final class SubjectTest(columns: Seq[Expression], subjects: Broadcast[Array[InternalRow]])
    extends RowTest {
  override def begin(): InternalRow => Boolean = {
    val values = UnsafeProjection.create(columns)
    val order = SubjectTest.order(columns.map(_.dataType))
    val wanted = subjects.value
    row => Arrays.binarySearch(wanted, values(row), order) >= 0
  }
}

private[erase] object SubjectTest {

  /** Values that are equal in SQL are equal in Spark's order, and no others. */
  def order(types: Seq[DataType]): Ordering[InternalRow] = RowOrdering.createNaturalAscendingOrdering(types)
}
