package io.tailrace.replay

import java.util.Arrays

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.tailrace.common.TailraceStateException

final class RecordMetadataSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val partitions = Gen.choose(0, Int.MaxValue)
  private val offsets = Gen.choose(0L, Long.MaxValue)

  test("the golden vectors, both ways") {
    GoldenMetadata.records.foreach { r =>
      assert(RecordMetadata.encode(r.pid, r.partition, r.offset).toSeq == r.bytes.toSeq)
      assert(RecordMetadata.isValid(r.bytes))
      assert(RecordMetadata.producerId(r.bytes) == r.pid)
      assert(RecordMetadata.partition(r.bytes) == r.partition)
      assert(RecordMetadata.offset(r.bytes) == r.offset)
    }
  }

  test("null, another length and negative parts are no metadata") {
    assert(!RecordMetadata.isValid(null))
    GoldenMetadata.invalid.foreach(bytes => assert(!RecordMetadata.isValid(bytes), bytes.toSeq))
  }

  test("of one producer and partition, the later record has the greater bytes") {
    forAll(Gen.long, partitions, offsets, offsets) { (producer, partition, one, two) =>
      val a = RecordMetadata.encode(producer, partition, one)
      val b = RecordMetadata.encode(producer, partition, two)
      assert(Integer.signum(Arrays.compareUnsigned(a, b)) == java.lang.Long.compare(one, two))
      val later = RecordMetadata.later(a, b)
      assert(RecordMetadata.offset(later) == Math.max(one, two))
    }
  }

  test("later: null is nothing, two origins are an error that names both") {
    val a = RecordMetadata.encode(1, 2, 3)
    assert(RecordMetadata.later(null, a) eq a)
    assert(RecordMetadata.later(a, null) eq a)
    assert(RecordMetadata.later(null, null) == null)
    Seq(RecordMetadata.encode(1, 3, 3), RecordMetadata.encode(2, 2, 3)).foreach { other =>
      val error = intercept[TailraceStateException](RecordMetadata.later(a, other))
      assert(error.getCondition == "TAILRACE_METADATA_MIXED")
      assert(error.getMessageParameters.get("first") == "producer 1, partition 2")
    }
  }
}
