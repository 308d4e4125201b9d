package io.tailrace.join

import org.apache.spark.sql.catalyst.InternalRow

/** Looks at the rows of a task. */
trait RowObserver {
  def see(row: InternalRow): Unit
}

/** The rows of a task as they are emitted.
  *
  * The operator above may look at each of them without an iterator of its own: its calls can't be inlined where
  * a JVM has had several kinds of iterators.
  *
  * @param end called once, with the number of rows, when there are no more
  */
final class OutputRows(rows: Iterator[InternalRow], end: Long => Unit = _ => ())
    extends Iterator[InternalRow] {
  private var observer: RowObserver = _
  private var count = 0L
  private var hasEnded = false

  def observe(by: RowObserver): Unit = {
    require(observer == null, "two operators observe the same rows")
    observer = by
  }

  override def hasNext: Boolean = {
    val more = !hasEnded && rows.hasNext
    if (!more && !hasEnded) {
      hasEnded = true
      end(count)
    }
    more
  }

  override def next(): InternalRow = {
    val row = rows.next()
    count += 1
    if (observer != null) observer.see(row)
    row
  }
}
