package io.tailrace.label

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.tailrace.TaskMemory
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.{RowBuffer, RowMemory, RowSort}

/** Equal left rows are numbered, each once, wherever a chunk of them ends. */
final class TwinsSuite extends AnyFunSuite {
  import TwinsSuite.Left

  private val identityAt = 1
  private val columns = Array[DataType](StringType, LongType)

  private def fill(chunk: RowBuffer, lefts: Seq[Left]): Unit = {
    val projection = UnsafeProjection.create(columns)
    lefts.foreach { left =>
      val identity = left.identity.fold[Any](null)(identity => identity)
      val row = projection(InternalRow(UTF8String.fromString("a column"), identity))
      val key = left.key.getBytes
      chunk.append(key, key.length, left.time, 7L, row): Unit
    }
  }

  test("rows of one key, time and identity are numbered from 0, over all chunks") {
    val random = new Random(3)
    val manager = TaskMemory.create(64L << 20)
    for (_ <- 1 to 200) {
      val lefts = Seq
        .fill(random.nextInt(60)) {
          val identity = Option.when(random.nextInt(8) > 0)(random.nextInt(3).toLong)
          Left(Seq("", "a", "b", "a long key").apply(random.nextInt(4)), random.nextInt(5).toLong, identity)
        }
        .sortBy(_.time)
      val chunk = new RowBuffer(new RowMemory(manager))
      val twins = new ChunkTwins(identityAt, columns.length)
      val most = 1 + random.nextInt(20)
      val numbers = lefts.grouped(most).toSeq.flatMap { part =>
        chunk.clear()
        fill(chunk, part)
        val sorted = RowSort.byKey(chunk)
        twins.number(chunk, sorted)
        // Where they are parked, their keys in a file have to ascend.
        val seqs = sorted.toSeq.map(row => chunk.seq(row))
        assert(seqs == seqs.sorted && seqs.distinct.size == seqs.size)
        part.indices.map(ChunkTwins.of(chunk, _))
      }
      val expected = lefts.zipWithIndex.map { case (left, i) =>
        if (left.key.isEmpty || left.identity.isEmpty) 0 else lefts.take(i).count(_ == left)
      }
      assert(numbers == expected)
      chunk.close()
    }
    assert(manager.getMemoryConsumptionForThisTask == 0)
  }
}

private object TwinsSuite {
  private[label] final case class Left(key: String, time: Long, identity: Option[Long])
}
