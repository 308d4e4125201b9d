package io.tailrace.sync

import org.apache.spark.sql.tailrace.TaskMemory
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.RowMemory
import io.tailrace.testkit.{RowFixture, TestRow}

final class SpareRightSuite extends AnyFunSuite with RowFixture {

  test("each right row of a key is looked at once, however many left rows the key has") {
    val n = 2000
    val settings = SyncMatrixSuite.settings.copy(window = 1, syncDelay = 1)
    var looks = 0
    val range = new JoinRange(settings) {
      override def isBeyond(time: Long): Boolean = {
        looks += 1
        super.isBeyond(time)
      }
      override def has(time: Long): Boolean = {
        looks += 1
        super.has(time)
      }
    }
    // Between any two right rows there is a left one, out of reach of both.
    val rights = bufferOf((0 until n).map(i => TestRow.of("k", i * 10L, i.toLong)))
    val spare = new SpareRight(new RowMemory(TaskMemory.create(taskMemory)), taskMemory)
    try {
      range.around(-5)
      (n - 1 to 0 by -1).foreach(i => spare.addNew(rights.base(i), rights.at(i), i, range))
      looks = 0
      (0 until n).foreach { i =>
        assert(!spare.isEmpty)
        range.around(i * 10L + 5)
        // No row is taken, so no other class is called.
        spare.take(range, null, null, null)
      }
      assert(spare.isEmpty && spare.hasSeen && looks >= n && looks <= 4 * n)
    } finally spare.close()
  }
}
