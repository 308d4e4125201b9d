package io.tailrace.label

import io.tailrace.state.{RowBuffer, RunCursor, ScratchRun, SortedRows, StoreKind, TailraceStateStore}

/** Left rows for which there was no memory, in local files, sorted by key. They come back a few at a time; what of these
  * has to wait once more comes back before the others, in still smaller parts.
  */
private[label] final class ParkedRows extends AutoCloseable {
  private var stack = List.empty[ParkedRows.Parked]

  /** Takes rows out of a chunk, which it empties.
    *
    * @param rest their numbers, sorted by key; none has an empty one
    */
  def park(store: TailraceStateStore, chunk: RowBuffer, rest: Array[Int]): Unit = {
    // One bucket, or two if there are times before the epoch.
    val sorted = SortedRows.ofSorted(StoreKind.RightKeySorted, chunk, rest, Long.MaxValue)
    stack ::= new ParkedRows.Parked(store.scratch(sorted), chunk.bytes / ParkedRows.Parts)
    chunk.release()
  }

  /** @param chunk gets rows that were parked, sorted by key. @return whether there were any */
  def fill(chunk: RowBuffer): Boolean = stack match {
    case Nil => false
    case last :: before =>
      last.fill(chunk)
      !chunk.isEmpty || {
        last.close()
        stack = before
        fill(chunk)
      }
  }

  override def close(): Unit = {
    stack.foreach(_.close())
    stack = Nil
  }
}

private[label] object ParkedRows {
  private val Parts = 4

  private final class Parked(run: ScratchRun, bytes: Long) extends AutoCloseable {
    private val sections = run.sections.iterator
    private var open: Option[RunCursor] = None

    /** Rows of one section, at least one if any is left. */
    def fill(chunk: RowBuffer): Unit = {
      while (open.forall(!_.isValid) && nextSection()) {}
      open.foreach { cursor =>
        while (
          cursor.isValid && (chunk.isEmpty || chunk.bytes < bytes) && chunk.appendIfRoom(
            cursor.base,
            cursor.at
          )
        )
          cursor.next()
      }
    }

    private def nextSection(): Boolean = {
      closeOpen()
      sections.hasNext && {
        val cursor = sections.next().cursor()
        open = Some(cursor)
        cursor.first()
        true
      }
    }

    private def closeOpen(): Unit = {
      open.foreach(_.close())
      open = None
    }

    override def close(): Unit = {
      closeOpen()
      run.close()
    }
  }
}
