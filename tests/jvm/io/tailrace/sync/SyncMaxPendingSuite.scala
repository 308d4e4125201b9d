package io.tailrace.sync

import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.tailrace.StreamAccess
import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.api.Tailrace
import io.tailrace.common.TailraceAnalysisException
import io.tailrace.testkit.{
  FakeRecord,
  FakeTopics,
  ManualClock,
  SlowSuite,
  SparkSuite,
  TempDirectory,
  Warnings
}

/** `max_buffered`: while a partition stalls, the others are not read beyond it. */
final class SyncMaxBufferedSuite extends SparkSuite with TempDirectory with SlowSuite {
  private val options =
    SyncOptions("at", "at", window = "1 hour", syncDelay = "1 second", maxBuffered = Some(20))

  private def rows(seconds: Range): Seq[FakeRecord] =
    seconds.map(s => FakeRecord(s"k$s", s * 1000000L, s.toLong))

  private def join(left: FakeTopics, right: FakeTopics, more: SyncOptions = options): DataFrame =
    Tailrace.syncJoin(left.frame(spark), right.frame(spark), Seq("k" -> "k"), more)

  private def start(frame: DataFrame): StreamingQuery =
    frame
      .select("id", "id_right")
      .writeStream
      .format("memory")
      .queryName("pending")
      .option("checkpointLocation", s"$directory/checkpoint")
      .start()

  private def observed(query: StreamingQuery): Row =
    query.lastProgress.observedMetrics.get("tailrace.syncJoin")

  private def read(query: StreamingQuery): Long =
    query.lastProgress.sources
      .flatMap(s => "[0-9]+(?=[,}])".r.findAllIn(s.endOffset).map(_.toLong))
      .sum

  test("held rows stay bounded, the partition that is waited for is read, and all rows come out in the end") {
    val (bids, impressions) = (new FakeTopics("bids"), new FakeTopics("impressions"))
    bids.add("bids", 0, rows(0 until 5): _*)
    impressions.add("impressions", 0, rows(0 until 5): _*)
    impressions.add("impressions", 1, FakeRecord("other", 0, -1))
    val query = start(join(bids, impressions))
    try {
      query.processAllAvailable()
      (1 to 12).foreach { i =>
        val more = rows(i * 5 until i * 5 + 5)
        bids.add("bids", 0, more: _*)
        impressions.add("impressions", 0, more: _*)
        query.processAllAvailable()
      }
      val held = observed(query)
      // Above twenty no batch of five is read any more.
      assert(held.getAs[Long]("bufferedLeft") <= 25 && held.getAs[Long]("bufferedRight") <= 26, held)
      assert(read(query) < 2 * 65 + 1)
      assert(spark.table("pending").count() == 0)
      // The one that is waited for isn't held back, however much is held.
      impressions.add("impressions", 1, FakeRecord("another", 1000L * 1000000, -2))
      val deadline = System.nanoTime + 60L * 1000000000
      while (spark.table("pending").count() < 63 && System.nanoTime < deadline) query.processAllAvailable()
      // Up to a second before the last row of partition 0.
      val out = spark.table("pending").collect().map(r => (r.getLong(0), r.getAs[Any](1))).toSet
      assert(out == (0L until 63L).map(n => (n, n)).toSet)
      assert(read(query) == 2 * 65 + 2)
    } finally query.stop()
  }

  test("a partition that stalls while all others are held back is excluded") {
    val (bids, impressions) = (new FakeTopics("bids"), new FakeTopics("impressions"))
    impressions.add("impressions", 1, FakeRecord("other", 0, -1))
    bids.add("bids", 0, rows(0 until 30): _*)
    impressions.add("impressions", 0, rows(0 until 30): _*)
    val excluding = options.copy(onStall = "exclude", stallAfter = Some("2 seconds"))
    val clock = new ManualClock
    val emitted = new AtomicLong
    val query =
      StreamAccess.start(join(bids, impressions, excluding), s"$directory/checkpoint", Some(clock)) {
        (rows, _) => emitted.addAndGet(rows.count()): Unit
      }
    try {
      query.processAllAvailable()
      assert(emitted.get == 0)
      bids.add("bids", 0, rows(30 until 60): _*)
      impressions.add("impressions", 0, rows(30 until 60): _*)
      // No row comes that would make a batch.
      eventually(timeout(Span(60, Seconds)), interval(Span(20, Millis))) {
        clock.advance(250)
        assert(emitted.get == 58)
      }
    } finally query.stop()
  }

  test("a run that ends by itself reads all records, and tells once which rows it still holds") {
    val (bids, impressions) = (new FakeTopics("bids"), new FakeTopics("impressions"))
    bids.add("bids", 0, rows(0 until 60): _*)
    impressions.add("impressions", 0, rows(0 until 60): _*)
    impressions.add("impressions", 1, FakeRecord("other", 0, -1))
    Seq(bids, impressions).foreach(_.mostPerBatch = 25)
    val told = Warnings.of(classOf[SyncJoinDriver].getName) {
      val query = join(bids, impressions)
        .select("id", "id_right")
        .writeStream
        .format("noop")
        .trigger(Trigger.AvailableNow())
        .option("checkpointLocation", s"$directory/checkpoint")
        .start()
      query.awaitTermination()
      assert(read(query) == 2 * 60 + 1)
      assert(observed(query).getAs[Long]("bufferedLeft") == 60)
    }
    assert(told.count(_.startsWith("TAILRACE_SYNC_HELD")) == 1 && told.last.contains("60 left rows"))
  }

  test("the next start runs an uncommitted batch again, before Spark has asked its sources") {
    Seq(Trigger.ProcessingTime(0), Trigger.AvailableNow()).zipWithIndex.foreach { case (trigger, i) =>
      val (bids, impressions) = (new FakeTopics(s"bids-$i"), new FakeTopics(s"impressions-$i"))
      bids.add("bids", 0, rows(0 until 10): _*)
      impressions.add("impressions", 0, rows(0 until 10): _*)
      impressions.add("impressions", 1, rows(0 until 10): _*)
      val failing = new AtomicBoolean(true)
      def begin(): StreamingQuery = join(bids, impressions)
        .select("id", "id_right")
        .writeStream
        .trigger(trigger)
        .option("checkpointLocation", s"$directory/again-$i")
        .foreachBatch { (batch: Dataset[Row], _: Long) =>
          batch.collect(): Unit
          if (failing.getAndSet(false)) throw new IllegalStateException("as the test wants it")
        }
        .start()
      assert(intercept[Exception](begin().processAllAvailable()).getMessage.contains("as the test wants it"))
      val query = begin()
      try {
        query.processAllAvailable()
        assert(read(query) == 30)
        assert(observed(query).getAs[Long]("bufferedLeft") == 2)
      } finally query.stop()
    }
  }

  test(
    "a batch reads no more rows of a side than may be held, and the first one of a start a tenth of them"
  ) {
    val (bids, impressions) = (new FakeTopics("bids"), new FakeTopics("impressions"))
    def add(seconds: Range): Unit = {
      (0 to 3).foreach(p => bids.add("bids", p, rows(seconds): _*))
      impressions.add("impressions", 0, rows(seconds): _*)
    }
    def run(): Seq[Long] = {
      val query = join(bids, impressions, options.copy(maxBuffered = Some(40))).writeStream
        .format("noop")
        .option("checkpointLocation", s"$directory/checkpoint")
        .start()
      try {
        query.processAllAvailable()
        query.recentProgress.toSeq.map(_.sources.map(_.numInputRows).max).filter(_ > 0)
      } finally query.stop()
    }
    add(0 until 50)
    val first = run()
    assert(first.head <= 4 && first.max <= 40 && first.sum >= 50, first)
    add(50 until 100)
    val second = run()
    assert(second.head <= 4 && second.max <= 40, second)
  }

  test("a source whose partitions have names of other columns is held back as a whole") {
    val (bids, impressions) = (new FakeTopics("bids"), new FakeTopics("impressions"))
    val named = options.copy(leftPartition = Seq("topic", "k"), rightPartition = Seq("topic", "k"))
    impressions.add("impressions", 0, FakeRecord("k0", 0, -1))
    bids.add("bids", 0, FakeRecord("k0", 0, 0))
    val query = start(join(bids, impressions, named))
    try {
      (1 to 12).foreach { i =>
        bids.add("bids", 0, (0 until 5).map(n => FakeRecord("k0", (i * 5 + n) * 1000000L, i * 5L + n)): _*)
        query.processAllAvailable()
      }
      assert(observed(query).getAs[Long]("bufferedLeft") <= 25 && read(query) <= 27)
      impressions.add("impressions", 0, FakeRecord("k0", 1000L * 1000000, -2))
      val deadline = System.nanoTime + 60L * 1000000000
      while (spark.table("pending").count() < 61 && System.nanoTime < deadline) query.processAllAvailable()
      assert(spark.table("pending").count() == 61)
    } finally query.stop()
  }

  test("sources that can't be held back are refused by name, or by default told at the start") {
    val bids = new FakeTopics("bids")
    bids.add("bids", 0, rows(0 until 1): _*)
    val files = spark.readStream.schema("k string, at timestamp, partition int").parquet(directory.getPath)
    def joined(changed: SyncOptions) = Tailrace.syncJoin(files, bids.frame(spark), Seq("k" -> "k"), changed)
    val error = intercept[TailraceAnalysisException](joined(options))
    assert(error.getCondition == "TAILRACE_SYNC_MAX_BUFFERED_UNSUPPORTED")
    def told(changed: SyncOptions) = Warnings.of(SyncNotices.getClass.getName.stripSuffix("$")) {
      val query = joined(changed).writeStream
        .format("noop")
        .trigger(Trigger.AvailableNow())
        .option("checkpointLocation", s"$directory/${changed.maxBuffered.isDefined}")
        .start()
      query.awaitTermination()
    }
    val unlimited =
      told(options.copy(maxBuffered = SyncOptions("at", "at", "1 hour", "1 second").maxBuffered))
    assert(
      unlimited.count(_.startsWith("TAILRACE_SYNC_UNLIMITED")) == 1 && unlimited.head.contains("left side")
    )
    assert(told(options.copy(maxBuffered = None)).isEmpty)
  }
}
