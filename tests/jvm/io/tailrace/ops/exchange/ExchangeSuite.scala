package io.tailrace.ops.exchange

import java.io.File

import scala.util.Random

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.functions.{col, expr, lit, when}
import org.apache.spark.sql.{DataFrame, SaveMode}

import io.tailrace.api.Tailrace
import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.testkit._

/** A query that goes on from an imported checkpoint gives the rows of one that has read everything itself. */
final class ExchangeSuite extends SparkSuite with SlowSuite {
  private def batches(seed: Int): Seq[NeverLate.Batch] =
    (0 until 6).map(i => NeverLate.batch(i, new Random(seed.toLong * 100 + i)))

  private def harness(checkpoint: File, how: String): StreamHarness =
    new StreamHarness(spark, checkpoint)(NeverLate.query(NeverLate.options(how)))

  /** The query as far as the export, and the rows that had come out. */
  private def begun(checkpoint: File, how: String, of: Seq[NeverLate.Batch]): Seq[Emitted] = {
    val h = harness(checkpoint, how).start()
    of.foreach { case (served, engaged) => h.step(served, engaged) }
    h.stop()
    h.all
  }

  private def rest(h: StreamHarness, of: Seq[NeverLate.Batch]): Seq[Emitted] = {
    h.start()
    (of :+ NeverLate.end).foreach { case (served, engaged) => h.step(served, engaged) }
    h.stop()
    h.all
  }

  private def preloaded(checkpoint: File, how: String, of: Seq[NeverLate.Batch]): StreamHarness = {
    val h = harness(checkpoint, how)
    of.foreach { case (served, engaged) => h.preload(served, engaged) }
    h
  }

  private def conditionOf(body: => Any): String = intercept[Exception](body) match {
    case e: SparkThrowable => e.getCondition
    case e => throw e
  }

  for {
    how <- Seq("left", "inner"); strategy <- Seq("lazy", "eager"); format <- Seq(1, 2)
    if how == "left" || strategy == "lazy"
  } {
    val tags = if (strategy == "eager" && format == 2) Nil else Seq(Campaign)
    test(s"an export and its import are the same state: $how, $strategy, format $format", tags: _*) {
      withConf(
        TailraceConf.JoinStrategy.key -> strategy,
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format
      ) {
        withDirectory { d =>
          val (old, exported, made) = (new File(d, "old"), new File(d, "export"), new File(d, "new"))
          val (first, last) = batches(format).splitAt(4)
          val before = begun(old, how, first)
          val report = Tailrace.exportState(spark, old.getPath, exported.getPath)
          assert(report.operators.head.rows("left") > 0 && report.operators.head.rows("right") > 0)
          val done = Tailrace.importState(spark, made.getPath, exported.getPath)
          assert(done.batch == report.batch)
          val rows = rest(preloaded(made, how, first), last)
          val expected = NeverLate.expected(first ++ last, how).filterNot { row =>
            if (how == "left") before.exists(_.id == row.id) else before.contains(row)
          }
          assert(rows == Emitted.sorted(expected) && rows.nonEmpty)
          assert(d.list.toSet == Set("old", "export", "new"))
        }
      }
    }
  }

  test("columns that Parquet has no type for are refused before anything is written") {
    withDirectory { d =>
      val query = (l: DataFrame, r: DataFrame) =>
        NeverLate.query(NeverLate.options())(l.withColumn("wait", expr("make_interval(0, id)")), r)
      val h = new StreamHarness(spark, new File(d, "old"))(query).start()
      h.step(NeverLate.batch(0, new Random(1))._1, Nil)
      h.stop()
      Seq(true, false).foreach { dry =>
        val e = intercept[TailraceAnalysisException](
          Tailrace.exportState(spark, new File(d, "old").getPath, new File(d, "export").getPath, dry)
        )
        assert(e.getCondition == "TAILRACE_STATE_EXCHANGE_TYPES" && e.getMessage.contains("wait INTERVAL"))
      }
      assert(d.list.toSeq == Seq("old"))
    }
  }

  test("rows of tables are open at the beginning of a query") {
    import spark.implicits._
    withDirectory { d =>
      val (first, last) = batches(7).splitAt(4)
      val before = begun(new File(d, "old"), "left", first)
      val open = first.flatMap(_._1).filterNot(row => before.exists(_.id.contains(row.id)))
      val made = new File(d, "new")
      val h = harness(made, "left")
      val query = NeverLate.query(NeverLate.options())(h.inputs._1, h.inputs._2)
      val watermark = first.flatMap(_._1).map(_.t.getTime).max - 40000
      val options =
        ImportOptions(open.toDF().withColumn("more", lit(1)), first.flatMap(_._2).toDF(), Nil, watermark)
      assert(Tailrace.importState(query, made.getPath, options).left == open.size)
      assert(
        conditionOf(Tailrace.importState(query, made.getPath, options)) == "TAILRACE_STATE_EXCHANGE_EXISTS"
      )
      val rows = rest(h, last)
      val expected =
        NeverLate.expected(first ++ last).filterNot(row => before.exists(_.id == row.id))
      assert(rows == Emitted.sorted(expected) && rows.nonEmpty)
    }
  }

  test("rows that were edited come out so") {
    withDirectory { d =>
      val (old, exported, made) = (new File(d, "old"), new File(d, "export"), new File(d, "new"))
      val before = begun(old, "left", batches(3).take(2))
      Tailrace.exportState(spark, old.getPath, exported.getPath)
      val left = new File(exported, "operator-0/left").getPath
      val edited = spark.read.parquet(left).withColumn("k", when(col("k") === "a", "z").otherwise(col("k")))
      edited.localCheckpoint().write.mode(SaveMode.Overwrite).parquet(left)
      Tailrace.importState(spark, made.getPath, exported.getPath)
      val rows = rest(preloaded(made, "left", batches(3).take(2)), Nil)
      assert(rows.exists(_.key == "z") && rows.filter(_.key == "z").forall(_.labels.isEmpty))
      assert(!rows.exists(_.key == "a") && before.forall(row => !rows.exists(_.id == row.id)))
    }
  }

  test("an export is the beginning of a query with other settings") {
    withDirectory { d =>
      val (old, exported, made) = (new File(d, "old"), new File(d, "export"), new File(d, "new"))
      val (first, last) = batches(5).splitAt(4)
      val before = begun(old, "left", first)
      val report = Tailrace.exportState(spark, old.getPath, exported.getPath)
      val rows = Tailrace.exportedRows(spark, made.getPath, exported.getPath)
      assert(rows.batch == report.batch && rows.watermarkMs == report.watermarkMs)
      val inputs = preloaded(made, "left", first)
      val query = NeverLate.query(NeverLate.options("inner"))
      Tailrace.importState(query(inputs.inputs._1, inputs.inputs._2), made.getPath, rows)
      inputs.start(query)
      (last :+ NeverLate.end).foreach { case (served, engaged) => inputs.step(served, engaged) }
      inputs.stop()
      // Of rows that wait, pairs of both have come out or are due for the user; pairs with later rows come out.
      val open = first.flatMap(_._1).filterNot(row => before.exists(_.id.contains(row.id)))
      val kept = first.map { case (served, engaged) => (served.filter(open.contains), engaged) }
      val earlier = NeverLate.expected(kept, "inner")
      val expected = NeverLate.expected(kept ++ last, "inner").diff(earlier)
      assert(inputs.all == expected && expected.nonEmpty)
    }
  }

  test("an import that dies leaves nothing that a query would start with, or all of it", Campaign) {
    withDirectory { d =>
      val (old, exported) = (new File(d, "old"), new File(d, "export"))
      val (first, last) = batches(4).splitAt(4)
      begun(old, "left", first): Unit
      Tailrace.exportState(spark, old.getPath, exported.getPath)
      val whole = {
        Tailrace.importState(spark, new File(d, "whole").getPath, exported.getPath)
        rest(preloaded(new File(d, "whole"), "left", first), last)
      }
      def steps(at: Int): Int = {
        val made = new File(d, s"new-$at-${d.list.length}")
        val dead = new DeadProcess(at)
        withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
          try WatchedFiles.watchedBy(dead)(Tailrace.importState(spark, made.getPath, exported.getPath)): Unit
          catch { case e: Exception => if (dead.steps < at) throw e }
        }
        if (!made.exists || !new File(made, "metadata").exists)
          Tailrace.importState(spark, made.getPath, exported.getPath): Unit
        try assert(rest(preloaded(made, "left", first), last) == whole, s"died at step $at")
        catch {
          case e: Exception if !e.isInstanceOf[org.scalatest.exceptions.TestFailedException] =>
            assert(new File(made, "metadata").exists, s"died at step $at: $e")
            // The same call again: it deletes what the dead one has left.
            Tailrace.importState(spark, made.getPath, exported.getPath): Unit
            assert(!d.list.exists(_.startsWith(s"${made.getName}-import-")))
            assert(rest(preloaded(made, "left", first), last) == whole)
        }
        dead.steps
      }
      val all = steps(Int.MaxValue)
      assert(all > 10)
      val random = new Random(all.toLong)
      // The last steps move the files.
      (Campaign.seeds(short = 1).map(_ => 1 + random.nextInt(all)) ++ Seq(all - 2, all - 1))
        .foreach(steps(_): Unit)
    }
  }

  test("what can't be exchanged is refused, and leaves nothing") {
    import spark.implicits._
    withDirectory { d =>
      val (old, exported, made) = (new File(d, "old"), new File(d, "export"), new File(d, "new"))
      val h = harness(old, "left").start()
      h.step(batches(1).head._1, batches(1).head._2)
      def exporting = Tailrace.exportState(spark, old.getPath, exported.getPath)
      assert(conditionOf(exporting) == "TAILRACE_STATE_IN_USE")
      h.stop()
      def importing = Tailrace.importState(spark, made.getPath, exported.getPath)
      assert(conditionOf(importing) == "TAILRACE_STATE_EXCHANGE_NO_EXPORT")
      exporting
      assert(conditionOf(exporting) == "TAILRACE_STATE_EXCHANGE_EXISTS")
      val (left, right) = (batches(1).head._1.toDF(), batches(1).head._2.toDF())
      val query = NeverLate.query(NeverLate.options())(h.inputs._1, h.inputs._2)
      def refused(options: ImportOptions): String =
        conditionOf(Tailrace.importState(query, made.getPath, options))
      assert(refused(ImportOptions(left.drop("id"), right)) == "TAILRACE_STATE_EXCHANGE_COLUMNS")
      assert(refused(ImportOptions(left, right, Seq("0"))) == "TAILRACE_STATE_EXCHANGE_ROWS")
      val timeless = left.withColumn("t", lit(null).cast("timestamp"))
      assert(refused(ImportOptions(timeless, right)) == "TAILRACE_STATE_EXCHANGE_ROWS")
      val counted = query.groupBy("t", "k").count()
      assert(
        conditionOf(Tailrace.importState(counted, made.getPath, ImportOptions(left, right))) ==
          "TAILRACE_STATE_EXCHANGE_UNSUPPORTED"
      )
      val unjoined = intercept[TailraceAnalysisException](
        Tailrace.importState(h.inputs._1.toDF(), made.getPath, ImportOptions(left, right))
      )
      assert(unjoined.getMessage.contains("This one has: no tailrace.join of streams."))
      assert(d.list.toSet == Set("old", "export"))
    }
  }
}
