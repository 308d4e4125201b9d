package io.tailrace.label

import java.io.File
import java.nio.file.{Files, StandardCopyOption}

import scala.util.Random

import org.apache.hadoop.fs.Path

import io.tailrace.testkit.{Checkpoint, Damage, NeverLate, Served, SparkSuite, StreamHarness, Times}

/** Files of a label join's checkpoint in the place of others: they are accepted only if they are as good as
  * equal. `DamageCampaignSuite` has all other damages.
  */
class DamagedCheckpointSuite extends SparkSuite {
  private val batches = { val random = new Random(7); Seq(1, 4, 7, 10).map(NeverLate.batch(_, random)) }

  private def written(directory: File): Unit = {
    val h = new StreamHarness(spark, directory)(NeverLate.query(NeverLate.options())).start()
    batches.foreach { case (served, engaged) => h.step(served, engaged) }
    h.stop()
  }

  test("the manifest of an empty partition isn't accepted for another partition") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
      h.step(Seq(Served("only", Times.seconds(1), 1)), Nil)
      h.stop()
      val manifests =
        Seq(0, 1).map(p => Checkpoint.newestFirst(new File(d, s"state/0/$p"), ".manifest").head)
      val (withRows, without) = manifests.partition(f => f.length > 500)
      Files.copy(without.head.toPath, withRows.head.toPath, StandardCopyOption.REPLACE_EXISTING)
      h.start().add(NeverLate.end._1, NeverLate.end._2)
      val (condition, parameters) = failureOf(h.streaming)
      assert(condition == "TAILRACE_STATE_FILE_CORRUPT")
      assert(new Path(parameters("file")).toUri.getPath == withRows.head.getPath)
    }
  }

  test("settings of another query's join are refused") {
    withDirectory { root =>
      val settings = "state/0/tailrace-join.json"
      val (one, other) = (new File(root, "one"), new File(root, "other"))
      written(one)
      val h = new StreamHarness(spark, other)(NeverLate.query(NeverLate.options("inner"))).start()
      h.step(batches.head._1, batches.head._2)
      h.stop()
      Damage.swap(new File(one, settings), new File(other, settings))
      val restarted = new StreamHarness(spark, one)(NeverLate.query(NeverLate.options()))
      batches.foreach { case (served, engaged) => restarted.preload(served, engaged) }
      restarted.start().add(NeverLate.end._1, NeverLate.end._2)
      assert(failureOf(restarted.streaming)._1 == "TAILRACE_CHECKPOINT_INCOMPATIBLE")
    }
  }
}
