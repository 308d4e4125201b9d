package io.tailrace.ops.erase

import java.io.File
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQueryException

import io.tailrace.api.Tailrace
import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit._

/** A query that goes on after an erasure gives what it would give if the rows had never come. */
final class EraseSuite extends SparkSuite with SlowSuite {
  private val subject = "subject-0f9c2e71"

  private def batches(seed: Int): Seq[NeverLate.Batch] = {
    def named(k: String) = if (k == "a") subject else k
    (0 until 6).map { i =>
      val (served, engaged) = NeverLate.batch(i, new Random(seed.toLong * 100 + i))
      (served.map(row => row.copy(k = named(row.k))), engaged.map(row => row.copy(k = named(row.k))))
    }
  }

  private def erase(d: File, where: String, dry: Boolean = false): EraseReport =
    Tailrace.erase(spark, d.getPath, EraseOptions(Some(where), dryRun = dry))

  private def state(d: File): DataFrame = spark.read.format("tailrace-state").load(d.getPath)

  private def filesOf(d: File): Seq[Path] = {
    val all = Files.walk(d.toPath)
    try all.iterator.asScala.filter(Files.isRegularFile(_)).toVector.sortBy(_.toString)
    finally all.close()
  }

  private def filesWith(d: File, text: String): Seq[Path] =
    filesOf(d).filter(file => new String(Files.readAllBytes(file), ISO_8859_1).contains(text))

  private def counts(report: EraseReport): Map[String, Long] =
    report.sides.map(side => side.side -> side.erased).toMap

  /** Runs some batches, erases, and gives the rest.
    *
    * @param isErased whether a row is, that was there before
    */
  private def check(how: String, where: String)(left: Served => Boolean, right: Engaged => Boolean): Unit =
    withDirectory { d =>
      val all = batches(how.length)
      val (first, rest) = all.splitAt(4)
      val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options(how))).start()
      first.foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      val before = h.all
      val waiting = state(d).count()
      val planned = erase(d, where, dry = true)
      assert(state(d).count() == waiting)
      val done = erase(d, where)
      assert(planned.dryRun && planned.sides == done.sides)
      val erased = counts(done)
      assert(state(d).count() == waiting - erased("left") - erased("right"))
      assert(erased("left") > 0 && erased.values.sum < waiting)
      h.start()
      (rest :+ NeverLate.end).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      val kept = first.map { case (served, engaged) => (served.filterNot(left), engaged.filterNot(right)) }
      val after = NeverLate.expected(kept ++ rest, how).filterNot { row =>
        if (how == "left") before.exists(_.id == row.id) else before.contains(row)
      }
      assert(h.all == Emitted.sorted(before ++ after))
    }

  test("an erasure of a damaged state leaves no file behind") {
    withConf(
      TailraceConf.JoinStrategy.key -> "eager",
      TailraceConf.InlineRunBytes.key -> "0",
      "spark.sql.shuffle.partitions" -> "1"
    ) {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
        batches(1).take(3).foreach { case (served, engaged) => h.step(served, engaged) }
        h.stop()
        def version(run: Path) = run.getFileName.toString.takeWhile(_.isDigit).toInt
        val runs = filesOf(d).filter(_.toString.endsWith(".run"))
        runs.filter(version(_) == runs.map(version).max).foreach(Files.delete)
        def files = filesOf(d).map(_.toString).filterNot(_.contains("tailrace-rescale"))
        val before = files
        intercept[TailraceStateException](erase(d, "k = 'a'"))
        assert(files == before)
        intercept[TailraceStateException](
          Tailrace.exportState(spark, d.getPath, new File(d, "export").getPath)
        )
        assert(files == before && !new File(d, "export").exists)
      }
    }
  }

  for {
    how <- Seq("left", "inner"); strategy <- Seq("lazy", "eager"); format <- Seq(1, 2)
    if how == "left" || strategy == "lazy"
  } {
    val tag = if (strategy == "lazy" || format == 2) Campaign else Campaign.Long
    val tags = if (format == 2 && how == "left" && strategy == "lazy") Nil else Seq(tag)
    test(s"the rows never come out: $how, $strategy, format $format", tags: _*) {
      withConf(
        TailraceConf.JoinStrategy.key -> strategy,
        TailraceConf.InlineRunBytes.key -> (if (format == 1) 0 else 1 << 20),
        "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format
      ) {
        check(how, s"k = '$subject'")(_.k == subject, _.k == subject)
        check(how, "id % 2 = 0")(_.id % 2 == 0, _ => false)
        check(how, s"key.k = '$subject' AND left.id % 2 = 0")(
          r => r.k == subject && r.id % 2 == 0,
          _ => false
        )
      }
    }
  }

  test("the bytes are gone from all files") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
      batches(1).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      assert(filesWith(d, subject).size > 2)
      val report = erase(d, s"k = '$subject'")
      assert(filesWith(d, subject).isEmpty)
      assert(report.untouched.exists(_.contains("sources")))
      // The empty batch that the first erasure has begun reads nothing again.
      assert(!erase(d, s"k = '$subject'").untouched.exists(_.contains("cut off")))
      val partitions = new File(d, "state/0").listFiles.filter(_.getName.forall(_.isDigit))
      partitions.foreach { partition =>
        val names = partition.list.filterNot(name => name.startsWith("_") || name.startsWith("."))
        assert(names.length == 1 && names.head.startsWith("of-"))
      }
      h.start()
      h.step(NeverLate.end._1, NeverLate.end._2)
      h.stop()
      assert(filesWith(d, subject).isEmpty)
    }
  }

  test("right rows alone, also where eager matching has found them") {
    withConf(TailraceConf.JoinStrategy.key -> "eager") {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
        val (served, engaged) = batches(1).unzip
        h.step(served.head, engaged.head)
        h.stop()
        val before = h.all
        val report = counts(erase(d, "rid >= 0"))
        assert(report("left") == 0 && report("right") > 0 && report("matches") > 0)
        h.start()
        h.step(NeverLate.end._1, NeverLate.end._2)
        h.stop()
        val rows = h.all.drop(before.size)
        assert(rows.size == served.head.size && rows.forall(_.labels.isEmpty))
      }
    }
  }

  test("subjects of a table, and rows of a hot key once") {
    import spark.implicits._
    withDirectory { d =>
      val options = NeverLate.options().copy(saltedKeys = Seq(Seq("hot")), saltBuckets = Some(3))
      val h = new StreamHarness(spark, d)(NeverLate.query(options)).start()
      def rows(k: String) = (1 to 4).map(i => Served(k, Times.seconds(i.toDouble), i))
      h.step(rows("hot") ++ rows("b") ++ rows("c"), Seq("hot", "b", "c").map(Engaged(_, Times.seconds(2), 7)))
      h.stop()
      val subjects = Seq(Some("hot"), None, Some("c"), Some("nobody")).toDF("k")
      val report = Tailrace.erase(spark, d.getPath, EraseOptions(subjects = Some(subjects)))
      assert(counts(report) == Map("left" -> 8, "right" -> 2))
      assert(state(d).select("key.k").distinct().as[String].collect().toSeq == Seq("b"))
      val typed = Seq("x").toDF("left.id")
      val e = intercept[Exception](
        Tailrace.erase(spark, d.getPath, EraseOptions(subjects = Some(typed.select("`left.id`"))))
      )
      assert(conditionOf(e) == "TAILRACE_COLUMN_TYPE")
    }
  }

  test("subjects of another type are those of their values, and of no other") {
    import spark.implicits._
    withDirectory { d =>
      val query = (l: DataFrame, r: DataFrame) =>
        NeverLate.query(NeverLate.options())(l.withColumn("score", expr("if(id = 1, -0d, double(id))")), r)
      val h = new StreamHarness(spark, d)(query).start()
      h.step((1 to 4).map(i => Served("a", Times.seconds(i.toDouble), i)), Nil)
      h.stop()
      def erased(subjects: DataFrame): Long =
        counts(Tailrace.erase(spark, d.getPath, EraseOptions(subjects = Some(subjects), dryRun = true)))(
          "left"
        )
      assert(erased(Seq(Some(3.0), Some(3.0), None).toDF("id")) == 1)
      assert(erased(Seq(BigDecimal(2), BigDecimal(4), BigDecimal(9)).toDF("id")) == 2)
      assert(erased(Seq(0.0).toDF("score")) == 1)
      Seq(Seq(3.7).toDF("id"), Seq(Double.NaN).toDF("id"), Seq((1L << 32) + 3).toDF("id")).foreach { wrong =>
        val e = intercept[Exception](erased(wrong))
        assert(conditionOf(e) == "TAILRACE_OPTION_INVALID")
        assert(e.getMessage.contains("values of `id`, which is of the type INT"))
      }
    }
  }

  // Type, values of the rows, and subjects.
  private val compared = Seq(
    ("STRING COLLATE UTF8_LCASE", Seq("'Bob'", "'bob'", "'eve'", "NULL"), Seq("'BOB'", "NULL")),
    ("STRING COLLATE UNICODE_CI", Seq("'Zo\u00e9'", "'zoe\u0301'", "'zoe'"), Seq("'ZO\u00c9'")),
    ("STRING COLLATE UTF8_BINARY_RTRIM", Seq("'ab'", "'ab  '", "' ab'"), Seq("'ab '")),
    ("STRING", Seq("'ab'", "'ab   '", "'AB'"), Seq("'ab'")),
    ("DOUBLE", Seq("-0d", "0d", "double('NaN')", "1d"), Seq("0d", "double('NaN')")),
    ("BINARY", Seq("X'00'", "X'0000'", "X'FF'"), Seq("X'0000'", "X'FF'")),
    ("DECIMAL(30,2)", Seq("1.5", "1.50", "2"), Seq("1.5")),
    (
      "INTERVAL DAY TO SECOND",
      Seq("INTERVAL '1' DAY", "INTERVAL '24' HOUR", "INTERVAL '2' DAY"),
      Seq("INTERVAL '1' DAY")
    ),
    (
      "STRUCT<n: STRING COLLATE UTF8_LCASE, x: DOUBLE>",
      Seq("struct('Bob', -0d)", "struct('bob', 0d)", "struct('bob', 1d)", "struct(NULL, 1d)", "NULL"),
      Seq("struct('BOB', 0d)", "struct(NULL, 1d)")
    ),
    ("STRUCT<d: DECIMAL(30,2)>", Seq("struct(NULL)", "struct(1.5)", "NULL"), Seq("struct(NULL)")),
    ("STRUCT<i: INT>", Seq("struct(1)", "struct(2)", "NULL"), Seq("struct(2)")),
    (
      "ARRAY<STRING COLLATE UTF8_LCASE>",
      Seq("array('A')", "array('a', NULL)", "array('a')"),
      Seq("array('a')")
    ),
    ("ARRAY<FLOAT>", Seq("array(-0f, float('NaN'))", "array(0f)", "array()"), Seq("array(0f, float('NaN'))"))
  )

  test("subjects are compared as SQL compares them") {
    def anyOf(dataType: String, values: Seq[String]) =
      values.map(v => s"CAST($v AS $dataType)").mkString("array(", ", ", ")")
    withDirectory { d =>
      val query = (l: DataFrame, r: DataFrame) => {
        val wide = compared.zipWithIndex.foldLeft(l) { case (frame, ((dataType, values, _), i)) =>
          frame.withColumn(s"c$i", expr(s"${anyOf(dataType, values)}[id % ${values.size}]"))
        }
        NeverLate.query(NeverLate.options())(wide.withColumn("m", expr("map(k, id)")), r)
      }
      val h = new StreamHarness(spark, d)(query).start()
      h.step((0 until 20).map(i => Served("a", Times.seconds(i.toDouble / 2), i)), Nil)
      h.stop()
      def erased(subjects: DataFrame, dry: Boolean = true): Long =
        counts(Tailrace.erase(spark, d.getPath, EraseOptions(subjects = Some(subjects), dryRun = dry)))(
          "left"
        )
      val left = state(d).where("side = 'left'").select("left.*").localCheckpoint()
      compared.zipWithIndex.foreach { case ((dataType, _, wanted), i) =>
        val subjects = spark.sql(s"SELECT explode(${anyOf(dataType, wanted)}) AS c$i").localCheckpoint()
        val expected = left.join(subjects, left(s"c$i") === subjects(s"c$i"), "left_semi").count()
        assert(expected > 0 && expected < 20, dataType)
        assert(erased(subjects) == expected, dataType)
      }
      // Without a collation of their own, as in a file.
      assert(erased(spark.sql("SELECT 'BOB' AS c0")) == 10)
      Seq("map('a', 1) AS m", "named_struct('x', 0d, 'n', 'bob') AS c8").foreach { wrong =>
        val e = intercept[Exception](erased(spark.sql(s"SELECT $wrong")))
        assert(conditionOf(e) == "TAILRACE_COLUMN_TYPE", wrong)
      }
      val e = intercept[Exception](erased(spark.sql("SELECT named_struct('i', 1L << 32) AS c10")))
      assert(conditionOf(e) == "TAILRACE_OPTION_INVALID")
      val fails = intercept[Exception](erase(d, "id = k"))
      assert(conditionOf(fails) == "TAILRACE_STATE_ERASE_CONDITION", fails)
      assert(erased(spark.sql("SELECT 'BOB' AS c0"), dry = false) == 10)
      assert(state(d).where("left.c0 = 'bob'").count() == 0 && state(d).count() == 10)
    }
  }

  private def conditionOf(e: Throwable): String = e match {
    case e: SparkThrowable => e.getCondition
    case e => throw e
  }

  test("what can't be erased is refused, and nothing is changed") {
    withDirectory { d =>
      val query: (DataFrame, DataFrame) => DataFrame =
        (served, engaged) =>
          NeverLate.query(NeverLate.options())(served, engaged.selectExpr("*", "rid AS id"))
      val h = new StreamHarness(spark, d)(query).start()
      def refused(where: String): String = conditionOf(intercept[Exception](erase(d, where)))
      h.step(batches(1).head._1, batches(1).head._2)
      assert(refused("k = 'b'") == "TAILRACE_STATE_IN_USE")
      h.stop()
      val before = filesOf(d)
      assert(refused("id = 3") == "TAILRACE_STATE_ERASE_AMBIGUOUS")
      assert(refused("nothing = 3") == "TAILRACE_STATE_ERASE_COLUMNS")
      assert(refused("left.id = 3 OR right.id = 3") == "TAILRACE_STATE_ERASE_COLUMNS")
      assert(refused("1 = 1") == "TAILRACE_STATE_ERASE_CONDITION")
      assert(refused("rid > rand()") == "TAILRACE_STATE_ERASE_CONDITION")
      assert(refused("k IN (SELECT k FROM range(3))") == "TAILRACE_STATE_ERASE_CONDITION")
      assert(refused("rid + 1").startsWith("DATATYPE_MISMATCH"))
      assert(refused("rid = ").startsWith("PARSE_SYNTAX_ERROR"))
      val both = EraseOptions(Some("rid = 3"), Some(spark.range(3).toDF("rid")))
      Seq(
        EraseOptions() -> "INVALID",
        both -> "CONFLICT",
        EraseOptions(Some("rid = 3"), operators = Seq(4)) -> "INVALID"
      ).foreach { case (options, condition) =>
        val e = intercept[Exception](Tailrace.erase(spark, d.getPath, options))
        assert(conditionOf(e) == s"TAILRACE_OPTION_$condition")
      }
      assert(filesOf(d) == before)
      assert(counts(erase(d, "right.id = 3 OR right.rid IN (1, 2)"))("right") > 0)
    }
  }

  test("a query that runs elsewhere, unseen, ends, and loses nothing") {
    withDirectory { d =>
      val real = new File(d, "real")
      val all = batches(2)
      val h = new StreamHarness(spark, real)(NeverLate.query(NeverLate.options())).start()
      all.take(4).foreach { case (served, engaged) => h.step(served, engaged) }
      val before = h.all
      // By another path the session doesn't see that its query is the same.
      Files.createSymbolicLink(new File(d, "elsewhere").toPath, real.toPath)
      val where = s"k = '$subject'"
      erase(new File(d, "elsewhere"), where)
      h.add(all(4)._1, all(4)._2)
      val e = intercept[StreamingQueryException](h.streaming.processAllAvailable())
      assert(e.getMessage.contains("[CONCURRENT_STREAM_LOG_UPDATE]"))
      h.start()
      (all.drop(5) :+ NeverLate.end).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      val kept = all.take(4).map { case (l, r) => (l.filterNot(_.k == subject), r.filterNot(_.k == subject)) }
      val after =
        NeverLate.expected(kept ++ all.drop(4)).filterNot(row => before.exists(_.id == row.id))
      assert(h.all == Emitted.sorted(before ++ after))
    }
  }
}
