package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

final class KafkaOffsetsSuite extends AnyFunSuite {
  test("offsets are read for each partition of each topic") {
    assert(
      KafkaOffsets.parse("""{"clicks":{"1":0,"0":17},"views":{"0":9007199254740993}}""") == Some(
        Map(
          KafkaPartition("clicks", 0) -> 17L,
          KafkaPartition("clicks", 1) -> 0L,
          KafkaPartition("views", 0) -> 9007199254740993L
        )
      )
    )
  }

  Seq(
    "5",
    "null",
    "",
    "{",
    "{}",
    "[]",
    """{"clicks":5}""",
    """{"clicks":{"zero":5}}""",
    """{"clicks":{"0":"5"}}""",
    """{"clicks":{"0":1e30}}""",
    """{"clicks":{"0":5},"logOffset":3}"""
  ).foreach { json =>
    test(s"$json isn't taken for offsets of Kafka") {
      assert(KafkaOffsets.parse(json).isEmpty)
    }
  }
}
