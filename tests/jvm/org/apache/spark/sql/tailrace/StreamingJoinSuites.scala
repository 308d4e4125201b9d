package org.apache.spark.sql.tailrace

import org.apache.spark.sql.streaming._
import org.scalactic.source.Position
import org.scalatest.Tag

/** Joins in Spark's default state format, which has a store for each of four maps. Spark runs each test on
  * two providers, which its name says; here there is one provider.
  */
trait JoinStateFormat2 extends StreamingJoinSuite with OnTailrace {
  override protected def testMode: Mode = Mode.WithoutVCF

  override protected def test(name: String, tags: Tag*)(body: => Any)(implicit pos: Position): Unit =
    testWithoutVirtualColumnFamilyJoins(name, tags: _*)(body)
}

/** Joins with one store and a column family for each map. */
trait JoinStateFormat3 extends StreamingJoinSuite with OnTailrace {
  override protected def testMode: Mode = Mode.WithVCF
}

final class InnerJoinFormat2Suite extends StreamingInnerJoinSuite with JoinStateFormat2 {
  override protected def everyRun = Seq("with watermark - one side condition - Append")
}

final class InnerJoinFormat3Suite extends StreamingInnerJoinSuite with JoinStateFormat3 {
  override protected def everyRun = Seq(
    "stream stream inner join on non-time column - Append (with changelog checkpointing = false)"
  )
}

final class InnerJoinFormat4Suite extends StreamingInnerJoinV4Suite with OnTailrace {
  override protected def everyRun = Nil
}

final class OuterJoinFormat2Suite extends StreamingOuterJoinSuite with JoinStateFormat2 {
  override protected def everyRun = Seq("windowed left outer join")
}

final class OuterJoinFormat3Suite extends StreamingOuterJoinSuite with JoinStateFormat3 {
  override protected def everyRun = Nil
}

final class OuterJoinFormat4Suite extends StreamingOuterJoinV4Suite with OnTailrace {
  override protected def everyRun = Seq("windowed right outer join (with changelog checkpointing = true)")
}

final class FullOuterJoinFormat2Suite extends StreamingFullOuterJoinSuite with JoinStateFormat2 {
  override protected def everyRun = Nil
}

final class FullOuterJoinFormat3Suite extends StreamingFullOuterJoinSuite with JoinStateFormat3 {
  override protected def everyRun = Nil
}

final class FullOuterJoinFormat4Suite extends StreamingFullOuterJoinV4Suite with OnTailrace {
  override protected def everyRun = Nil
}

final class LeftSemiJoinFormat2Suite extends StreamingLeftSemiJoinSuite with JoinStateFormat2 {
  override protected def everyRun = Nil
}

final class LeftSemiJoinFormat3Suite extends StreamingLeftSemiJoinSuite with JoinStateFormat3 {
  override protected def everyRun = Nil
}

final class LeftSemiJoinFormat4Suite extends StreamingLeftSemiJoinV4Suite with OnTailrace {
  override protected def everyRun = Seq(
    "windowed left semi join - Append (with changelog checkpointing = true)"
  )
}
