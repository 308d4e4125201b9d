package io.tailrace.api

import java.io.File
import java.nio.file.Files

import scala.util.Random

import org.apache.spark.SparkThrowable

import io.tailrace.common.LiteralPath
import io.tailrace.ops.erase.EraseOptions
import io.tailrace.ops.inspect.CheckpointInspection
import io.tailrace.testkit._

/** A path means itself in each command, whatever characters it has. */
final class LiteralPathsSuite extends SparkSuite with SlowSuite {

  // Names, each with another one that it would stand for as a pattern or as a part of a URI.
  private val names = Seq(
    "all *?[a]{b}\\c %20 \u00fc" -> "all XXabc %20 \u00fc",
    "12:00 at 100%25 \u00fc" -> "12:00 at 100% \u00fc"
  )
  private val single =
    Seq("*", "?", "[ab]", "{a,b}", "\\a", "a%20", "a b", "a:b", "\u00fc\u4e2d", "a#b", "a=b")

  private def conditionOf(body: => Any): String = intercept[Exception](body) match {
    case e: SparkThrowable => e.getCondition
    case e => throw e
  }

  /** Each directory stands beside one of the same kind, with the other name and other rows. */
  private def walk(name: String, other: String): Unit = withDirectory { root =>
    val batches = (0 until 3).map(i => NeverLate.batch(i, new Random(i.toLong)))
    def at(kind: String, of: String) = new File(root, s"$kind-$of")
    def harness(checkpoint: File) = new StreamHarness(spark, checkpoint)(NeverLate.query(NeverLate.options()))
    def state(checkpoint: File) = spark.read.format("tailrace-state").load(checkpoint.getPath)
    def prepare(of: String, count: Int) = {
      val h = harness(at("checkpoint", of)).start()
      batches.take(count).foreach { case (served, engaged) => h.step(served, engaged) }
      h.stop()
      val report =
        Tailrace
          .exportState(spark, at("checkpoint", of).getPath, at("export", of).getPath)
          .operators
          .head
          .rows
      (report("left"), report("right"), h.all)
    }
    prepare(other, 1)
    val (left, right, before) = prepare(name, 2)
    val made = at("import", name)
    val done = Tailrace.importState(spark, made.getPath, at("export", name).getPath)
    assert((done.left, done.right) == (left -> right), name)
    val copy = at("copy", name)
    Tailrace.rescale(spark, made.getPath, 7, to = Some(copy.getPath)): Unit
    val inspected = new CheckpointInspection(copy.getPath, spark.sessionState.newHadoopConf()).report(None)
    assert(inspected.operators.head.partitions.size == 7, name)
    Seq(made, copy).foreach(d => assert(state(d).count() == left + right, s"${d.getName} in $name"))
    val erased =
      Tailrace.erase(spark, copy.getPath, EraseOptions(Some("left.id % 2 = 0"))).sides.map(_.erased)
    assert(state(copy).count() == left + right - erased.sum, name)
    val h = harness(made)
    batches.take(2).foreach { case (served, engaged) => h.preload(served, engaged) }
    h.start()
    (batches.drop(2) :+ NeverLate.end).foreach { case (served, engaged) => h.step(served, engaged) }
    h.stop()
    val expected = NeverLate.expected(batches).filterNot(row => before.exists(_.id == row.id))
    assert(h.all == Emitted.sorted(expected), name)
  }

  test("of each command") {
    names.foreach((walk _).tupled)
  }

  test("of each command, each character alone", Campaign) {
    single.foreach(name => walk(name, "a"))
  }

  test("a reader of Spark's finds the directory alone") {
    withDirectory { root =>
      spark.range(1).write.parquet(new File(root, "a").getPath)
      (names.map(_._1) ++ single).foreach { name =>
        val directory = new File(root, name)
        spark.range(2).write.parquet(directory.getPath)
        val read = LiteralPath.reader(spark.read).parquet(directory.getPath)
        assert(read.count() == 2, name)
        assert(LiteralPath.in(LiteralPath.of(root.getPath), name).toUri.getPath == directory.getPath)
      }
    }
  }

  test("what can't be read so is refused before anything is written") {
    withDirectory { root =>
      def in(name: String) = new File(root, name).getPath
      val h =
        new StreamHarness(spark, new File(root, "checkpoint"))(NeverLate.query(NeverLate.options())).start()
      h.step(NeverLate.batch(0, new Random(1))._1, Nil)
      h.stop()
      Tailrace.exportState(spark, in("checkpoint"), in("export")): Unit
      Files.createDirectory(new File(root, "a*b").toPath)
      Seq("a:b", "").foreach { path =>
        assert(
          conditionOf(Tailrace.exportState(spark, in("checkpoint"), path)) == "TAILRACE_PATH_INVALID",
          path
        )
      }
      Seq(in("a*b/c"), "a:b", "", "/").foreach { path =>
        assert(conditionOf(Tailrace.importState(spark, path, in("export"))) == "TAILRACE_PATH_INVALID", path)
      }
      Seq("a:b", "", "/").foreach { path =>
        val to = Some(path)
        assert(
          conditionOf(Tailrace.rescale(spark, in("checkpoint"), 3, to = to)) == "TAILRACE_PATH_INVALID",
          path
        )
      }
      assert(new File(root, "a*b").list.isEmpty)
      Tailrace.exportState(spark, in("checkpoint"), in("a*b/c")): Unit
      assert(
        conditionOf(Tailrace.exportState(spark, "http://127.0.0.1:1/x", in("other"))) ==
          "TAILRACE_STATE_FILE_UNAVAILABLE"
      )
    }
  }
}
