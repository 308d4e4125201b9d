package io.tailrace.ops.rescale

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.hadoop.conf.Configuration

import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}
import io.tailrace.ops.inspect.CheckpointInspection
import io.tailrace.plan.GoldenCheckpoints
import io.tailrace.plan.GoldenCheckpoints.Left
import io.tailrace.testkit._

/** Queries that were cut off within a batch go on with another number of state partitions to the rows that
  * they give with the old one. So they do after a rescaling that died at any step.
  */
final class RescaledCheckpointsSuite extends RescaleSuite with SlowSuite {
  private def inspected(root: File) =
    new CheckpointInspection(checkpoint(root), new Configuration).report(None)

  private def rowsOf(root: File): Long = inspected(root).operators.map(_.rows).sum

  private def readBySpark(root: File): Long = spark.read.format("statestore").load(checkpoint(root)).count()

  /** Where rows leave in steps, a batch that was cut off needs a multiple. */
  private def numbers(root: File, i: Int): Seq[Int] = {
    val random = new Random(i.toLong)
    val steps = inspected(root).operators.flatMap(_.settings.get("release_every")).exists(_ != "batch")
    val before = inspected(root).operators.head.partitions.size
    val all = if (steps) Seq(4, 8, 12) else Seq(1, 3, 4, 7)
    random.shuffle(all.filter(_ != before)).take(if (i % 3 == 0) 2 else 1)
  }

  joins.zipWithIndex.foreach { case ((query, archive), i) =>
    // Each fourth one: they are many.
    val tags = if (i % 4 == 0) Nil else Seq(Campaign)
    test(s"${archive.getParentFile.getName}, ${query.name}", tags: _*) {
      withQuery(query, archive) { (root, left) =>
        val (rows, read) = (rowsOf(root), readBySpark(root))
        val chosen = numbers(root, i)
        chosen.foreach { partitions =>
          val report = rescale(root, partitions)
          assert(report.after == partitions && report.rows <= rows)
          assert(inspected(root).operators.forall(_.partitions.size == partitions))
          assert(readBySpark(root) <= read)
          assert(rescale(root, partitions) == RescaleReport(partitions, partitions, 0, 0))
        }
        assert(query.goOn(spark, root, left.before) == left.whole)
        val partitions = new File(root, "checkpoint/state/0").list.filter(_.forall(_.isDigit))
        // The query has deleted what isn't needed any more.
        assert(partitions.map(_.toInt).sorted.toSeq == (0 until chosen.last))
        partitions.foreach { partition =>
          val names = new File(root, s"checkpoint/state/0/$partition").list.filterNot(_.startsWith("_"))
          assert(names.length == 1 && names.head.startsWith(s"of-${chosen.last}-"))
        }
      }
    }
  }

  private val from = 2

  Seq("lazy join, format 2" -> 4, "eager join, format 1" -> 8, "synced join" -> 1).foreach {
    case (name, to) =>
      test(s"$name: a rescaling from $from to $to that dies", Campaign) {
        val (query, archive) = joins.filter(_._1.name == name).last
        def steps(at: Int)(after: (File, Left) => Unit): Int = {
          val death = new DeadProcess(at)
          withQuery(query, archive) { (root, left) =>
            withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
              try WatchedFiles.watchedBy(death)(rescale(root, to)): Unit
              catch { case _: Exception => assert(death.steps >= at) }
            }
            after(root, left)
          }
          death.steps
        }
        val all = steps(Int.MaxValue)((_, _) => ())
        assert(all > 10)
        val random = new Random(all.toLong)
        // The turn is near the end of the writes.
        Campaign.seeds(short = 4).foreach { n =>
          val at = 1 + random.nextInt(all)
          steps(at) { (root, left) =>
            // Some are repeated, or taken back, before the query goes on. Between two steps Spark asks for it.
            if (n % 3 > 0 || isInTurn(root)) rescale(root, if (n % 3 == 2) from else to): Unit
            assert(query.goOn(spark, root, left.before) == left.whole, s"died at step $at of $all")
          }
        }
      }
  }

  private def batch(i: Int): NeverLate.Batch = {
    val random = new Random(i.toLong)
    def key() = s"k${random.nextInt(60)}"
    def time(lag: Int) = Times.seconds(10.0 * i + random.nextInt(10) - lag)
    val served = Seq.tabulate(40)(n => Served(key(), time(0), i * 100 + n))
    (served, Seq.tabulate(40)(n => Engaged(key(), time(5), i * 100 + n)))
  }

  /** Runs some batches, takes back that the last one has completed, and goes on. */
  private def cutOff(batches: Int)(between: File => Unit): StreamHarness = {
    val options = NeverLate.options().copy(releaseEvery = Some("30 seconds"))
    val root = Files.createTempDirectory("rescaled").toFile
    try {
      val checkpoint = new File(root, "checkpoint")
      val h = new StreamHarness(spark, checkpoint)(NeverLate.query(options)).start()
      (0 until batches).foreach { i =>
        val (served, engaged) = batch(i)
        h.step(served, engaged)
      }
      h.stop()
      val commits = Checkpoint.newestFirst(new File(checkpoint, "commits"))
      Files.delete(commits.head.toPath)
      between(root)
      h.start()
      Seq(batch(batches), NeverLate.end).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      h
    } finally TempDirectory.delete(root.toPath)
  }

  test("a batch that was cut off gives the same rows, where rows leave in steps", Campaign) {
    Seq(10, 11).foreach { n =>
      val plain = cutOff(n)(_ => ())
      assert(plain.changed.isEmpty && plain.all.size > 300)
      Seq(Seq(6, 2, 8)).foreach { numbers =>
        val rescaled = cutOff(n) { root =>
          val e = intercept[TailraceStateException](rescale(root, 3))
          assert(e.getCondition == "TAILRACE_STATE_RESCALE_CUT_OFF")
          assert(e.getMessageParameters.get("partitions") == "2")
          numbers.foreach(rescale(root, _))
        }
        assert(rescaled.changed.isEmpty, s"$numbers, after $n batches")
        assert(rescaled.all == plain.all)
      }
    }
  }

  test("versions of before are there until the query has completed a batch") {
    val (query, archive) = joins.find(_._1.name.startsWith("inner")).get
    withQuery(query, archive) { (root, left) =>
      val newest = inspected(root).version
      rescale(root, 3)
      def partitions(version: Long) =
        new CheckpointInspection(checkpoint(root), new Configuration)
          .report(Some(version))
          .operators
          .head
          .partitions
      assert(partitions(newest).size == 3 && partitions(newest - 1).size == 2)
      assert(query.goOn(spark, root, left.before) == left.whole)
      assert(partitions(newest).size == 3)
      val e = intercept[TailraceAnalysisException](partitions(newest - 1))
      assert(e.getCondition == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
      assert(e.getMessageParameters.get("retained").startsWith(s"$newest to "))
    }
  }

  test("state that can't be read is refused before anything is written") {
    val (query, archive) = joins.find(_._1.name.startsWith("lazy")).get
    withQuery(query, archive) { (root, _) =>
      val files = Files.walk(root.toPath)
      val before =
        try files.iterator.asScala.filter(Files.isRegularFile(_)).toSeq
        finally files.close()
      before.filter(_.getFileName.toString.endsWith(".manifest")).foreach { manifest =>
        val bytes = Files.readAllBytes(manifest)
        // What says its kind and format.
        bytes(7) = 99
        Files.write(manifest, bytes)
      }
      def contents = before.map(file => file -> Files.readAllBytes(file).toSeq)
      val damaged = contents
      val e = intercept[TailraceStateException](rescale(root, 3))
      assert(e.getCondition == "TAILRACE_STATE_FILE_CORRUPT", e.getMessage)
      assert(contents == damaged && !new File(checkpoint(root), "tailrace-rescale").exists)
    }
  }

  test("what can't be rescaled") {
    withDirectory { root =>
      checkRefused("TAILRACE_CHECKPOINT_NOT_FOUND", "path" -> checkpoint(root))(rescale(root, 2))
      checkRefused(
        "TAILRACE_OPTION_INVALID",
        "call" -> "tailrace.rescale",
        "argument" -> "partitions",
        "value" -> "0",
        "allowed" -> "a whole number from 1 to 100000"
      )(rescale(root, 0))
    }
    val (others, archive) =
      GoldenCheckpoints.archives.find(_._1.name.startsWith("join beside other operators")).get
    withQuery(others, archive) { (root, left) =>
      val e = intercept[TailraceStateException](rescale(root, 3))
      assert(e.getCondition == "TAILRACE_STATE_RESCALE_UNSUPPORTED", e.getMessage)
      assert(others.goOn(spark, root, left.before) == left.whole)
    }
  }
}
