package io.tailrace.join

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.scalatest.funsuite.AnyFunSuite

final class PassesSuite extends AnyFunSuite {
  private val log = new ArrayBuffer[String]

  private def row(number: Int): UnsafeRow = {
    val row = new UnsafeRow(1)
    row.pointTo(new Array[Byte](16), 16)
    row.setInt(0, number)
    row
  }

  /** A pass over some numbers, which logs its life. */
  private def pass(name: String, numbers: Int*): () => Pass = () => {
    log += s"$name opened"
    new Pass {
      private val left = numbers.iterator

      override protected def step(): UnsafeRow =
        if (left.hasNext) row(left.next())
        else {
          log += s"$name ended"
          end()
          null
        }

      override def close(): Unit = log += s"$name closed"
    }
  }

  test("a pass is opened when all rows of the previous one have been taken, and that one is closed before") {
    log.clear()
    val passes = new Passes
    val rows = passes.rows(Seq(pass("a", 1, 2), pass("b"), pass("c", 3)))
    assert(log.isEmpty, "opened before a row is asked for")
    assert(rows.next().getInt(0) == 1 && log == Seq("a opened"))
    assert(rows.next().getInt(0) == 2 && log == Seq("a opened"))
    assert(rows.next().getInt(0) == 3)
    assert(log == Seq("a opened", "a ended", "a closed", "b opened", "b ended", "b closed", "c opened"))
    assert(!rows.hasNext && !rows.hasNext)
    intercept[NoSuchElementException](rows.next())
    assert(log.drop(7) == Seq("c ended"))
    passes.close()
    passes.close()
    assert(log.drop(8) == Seq("c closed"))
  }

  test("closing ends an open pass, and opens no other") {
    log.clear()
    val passes = new Passes
    val rows = passes.rows(Seq(pass("a", 1, 2), pass("b", 3)))
    rows.next()
    passes.close()
    assert(log == Seq("a opened", "a closed"))
  }

  test("a pass that can't be opened leaves nothing open") {
    log.clear()
    val passes = new Passes
    val rows = passes.rows(Seq(pass("a"), () => throw new IllegalStateException("no"), pass("b", 1)))
    intercept[IllegalStateException](rows.hasNext)
    passes.close()
    assert(log == Seq("a opened", "a ended", "a closed"))
  }

  test("work between passes emits no row, and is done once, in its turn") {
    log.clear()
    val passes = new Passes
    val rows =
      passes.rows(Seq(pass("a", 1), () => Pass.withoutRows(log += "work"), () => Pass.of(Iterator(row(2)))))
    assert(rows.map(_.getInt(0)).toSeq == Seq(1, 2))
    assert(log == Seq("a opened", "a ended", "a closed", "work"))
  }
}
