package io.tailrace.erase

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Predicate, UnsafeProjection, UnsafeRow}

/** Whether a row is to be erased. */
private[erase] trait RowTest extends Serializable {

  /** For one task. */
  def begin(): InternalRow => Boolean
}

/** @param condition bound to the row's columns. A row for which it is null stays */
private[erase] final class ConditionTest(condition: Expression) extends RowTest {
  override def begin(): InternalRow => Boolean = {
    val predicate = Predicate.create(condition)
    predicate.initialize(0)
    predicate.eval
  }
}

/** Whether some columns have the values of one of the subjects.
  *
  * @param columns bound to the row's
  */
private[erase] final class SubjectTest(
    columns: Seq[Expression],
    subjects: Broadcast[java.util.HashSet[UnsafeRow]]
) extends RowTest {
  override def begin(): InternalRow => Boolean = {
    val values = UnsafeProjection.create(columns)
    val wanted = subjects.value
    row => wanted.contains(values(row))
  }
}
