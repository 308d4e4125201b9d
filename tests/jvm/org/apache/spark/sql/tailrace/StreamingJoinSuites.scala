package org.apache.spark.sql.tailrace

import org.apache.spark.sql.streaming._
import org.scalactic.source.Position
import org.scalatest.Tag

/** Joins in Spark's default state format, a store for each of four maps. Spark runs these on two providers, named in the
  * names of the tests; here there is one.
  */
trait JoinStateFormat2 extends StreamingJoinSuite with OnTailrace {
  override protected def testMode: Mode = Mode.WithoutVCF

  override protected def test(name: String, tags: Tag*)(body: => Any)(implicit pos: Position): Unit =
    testWithoutVirtualColumnFamilyJoins(name, tags: _*)(body)

  protected def inThisFormat(name: String): String = s"$name (without virtual column family joins)"
}

/** Joins with one store and a column family for each map. */
trait JoinStateFormat3 extends StreamingJoinSuite with OnTailrace {
  override protected def testMode: Mode = Mode.WithVCF
}

object StreamingJoins {

  /** Names in state formats 3 and 4. */
  def inColumnFamilies(name: String): Seq[String] =
    Seq("false", "true").map { changelog =>
      s"$name (with changelog checkpointing = $changelog) (with virtual column family joins)"
    }

  val outerOldCheckpoints: Seq[String] = Seq(
    "SPARK-26187 restore the stream-stream outer join query from Spark 2.4"
  )
  val innerOldCheckpoints: Seq[String] = Seq(
    "SPARK-26187 restore the stream-stream inner join query from Spark 2.4",
    "SPARK-48687 - restore the stream-stream inner join query from Spark 3.5 and " +
      "changing the join condition (key schema) should fail the query",
    "SPARK-48687 - restore the stream-stream inner join query from Spark 3.5 and " +
      "changing the value schema should fail the query"
  )
  val innerOnHdfs: Seq[String] = Seq(
    "SPARK-51779 Join query using virtual column families with HDFS should fail " +
      "(with virtual column family joins)"
  )

  val innerInColumnFamilies: Map[String, Seq[String]] = Map(
    NotApplicable.OnHdfs -> innerOnHdfs,
    NotApplicable.OldCheckpoint -> innerOldCheckpoints.flatMap(inColumnFamilies)
  )
  val outerInColumnFamilies: Map[String, Seq[String]] =
    Map(NotApplicable.OldCheckpoint -> outerOldCheckpoints.flatMap(inColumnFamilies))
}

final class InnerJoinFormat2Suite extends StreamingInnerJoinSuite with JoinStateFormat2 {
  override protected def everyRun = Seq("with watermark - one side condition - Append")
  override protected def notApplicable =
    Map(NotApplicable.OldCheckpoint -> StreamingJoins.innerOldCheckpoints.map(inThisFormat))
}

final class InnerJoinFormat3Suite extends StreamingInnerJoinSuite with JoinStateFormat3 {
  override protected def everyRun = Seq(
    "stream stream inner join on non-time column - Append (with changelog checkpointing = false)"
  )
  override protected def notApplicable = StreamingJoins.innerInColumnFamilies
}

final class InnerJoinFormat4Suite extends StreamingInnerJoinV4Suite with OnTailrace {
  override protected def everyRun = Nil
  override protected def notApplicable = StreamingJoins.innerInColumnFamilies
}

final class OuterJoinFormat2Suite extends StreamingOuterJoinSuite with JoinStateFormat2 {
  override protected def everyRun = Seq("windowed left outer join")
  override protected def notApplicable =
    Map(NotApplicable.OldCheckpoint -> StreamingJoins.outerOldCheckpoints.map(inThisFormat))
}

final class OuterJoinFormat3Suite extends StreamingOuterJoinSuite with JoinStateFormat3 {
  override protected def everyRun = Nil
  override protected def notApplicable = StreamingJoins.outerInColumnFamilies
}

final class OuterJoinFormat4Suite extends StreamingOuterJoinV4Suite with OnTailrace {
  override protected def everyRun = Seq("windowed right outer join (with changelog checkpointing = true)")
  override protected def notApplicable = StreamingJoins.outerInColumnFamilies
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
