package io.tailrace.sync

import org.scalatest.funsuite.AnyFunSuite

/** Which partitions aren't read while too many rows are held. */
final class HoldBackSuite extends AnyFunSuite {
  import SyncTimes.Unknown

  test("left partitions from the release time on are held back: their rows would only wait") {
    assert(HoldBack.left(Map("0" -> 6, "1" -> 3, "2" -> 4), release = 4) == Set("0", "2"))
    assert(HoldBack.left(Map("0" -> Unknown), release = Unknown).isEmpty)
  }

  test("right partitions that are ahead of the slowest one are held back, and it never is") {
    assert(HoldBack.right(Map("0" -> 7, "1" -> 5, "2" -> 9), leftLow = None) == Set("0", "2"))
    assert(HoldBack.right(Map("0" -> 7, "1" -> Unknown), leftLow = None) == Set("0"))
    assert(HoldBack.right(Map("0" -> 7, "1" -> 7), leftLow = None).isEmpty)
    assert(HoldBack.right(Map.empty, leftLow = None).isEmpty)
  }

  test("the slowest right partition is held back too while it is ahead of the left side") {
    assert(HoldBack.right(Map("0" -> 7, "1" -> 5), leftLow = Some(4)) == Set("0", "1"))
    assert(HoldBack.right(Map("0" -> 7, "1" -> 5), leftLow = Some(5)) == Set("0"))
    // The left side, or a right partition, is unknown: partitions that wait for it are held back.
    assert(HoldBack.right(Map("0" -> 7, "1" -> 5), leftLow = Some(Unknown)) == Set("0", "1"))
    assert(HoldBack.right(Map("0" -> 7, "1" -> Unknown), leftLow = Some(Unknown)) == Set("0"))
  }

  test("offsets are written as Kafka's source does") {
    val json = """{"a":{"0":1,"10":7},"b":{"2":0}}"""
    assert(KafkaOffsets.json(KafkaOffsets.parse(json).get) == json)
    assert(KafkaOffsets.isAmong(KafkaPartition("a", 3), Set("3")))
    assert(KafkaOffsets.isAmong(KafkaPartition("a", 3), Set("a-3")))
    assert(!KafkaOffsets.isAmong(KafkaPartition("a", 3), Set("b-3", "a-13")))
  }

  test("a batch's records are shared among its partitions in proportion, and there is always one") {
    def at(ends: Long*) = ends.zipWithIndex.map { case (end, p) => KafkaPartition("a", p) -> end }.toMap
    assert(KafkaOffsets.within(at(100, 100), at(130, 110), most = 40) == at(130, 110))
    assert(KafkaOffsets.within(at(100, 100), at(130, 110), most = 10) == at(107, 102))
    assert(KafkaOffsets.within(at(0, 0, 0), at(5, 6, 5), most = 1) == at(0, 1, 0))
    // A new partition is read from its end on, and one that is emptied isn't read.
    assert(KafkaOffsets.within(at(0), at(9, 7), most = 3) == at(3, 7))
    assert(KafkaOffsets.within(at(0, 9), at(9, 2), most = 3) == at(3, 2))
  }
}
