package io.tailrace.join

import java.io.File
import java.nio.file.{Files, StandardCopyOption}

import scala.util.Random

import org.apache.hadoop.fs.Path
import org.scalatest.Assertion

import io.tailrace.testkit._

/** Every kind of file in a checkpoint, damaged in every way, one at a time: the query that is started again gives what
  * the oracle says, or is refused with the file's name. There is no third.
  */
class DamagedCheckpointSuite extends SparkSuite {
  import DamagedCheckpointSuite._

  private val batches = { val random = new Random(7); Seq(1, 4, 7, 10).map(NeverLate.batch(_, random)) }

  private def checkpoint(directory: File): StreamHarness =
    new StreamHarness(spark, directory)(NeverLate.query(NeverLate.options()))

  /** @return what came out of each batch so far */
  private def written(directory: File): Map[Long, Seq[Emitted]] = {
    val h = checkpoint(directory).start()
    batches.foreach { case (served, engaged) => h.step(served, engaged) }
    h.stop()
    h.byBatch
  }

  /** What the query gives that goes on from the checkpoint: all that came out, or why it was refused. */
  private def restarted(directory: File, before: Map[Long, Seq[Emitted]]): Either[Throwable, Seq[Emitted]] = {
    val h = checkpoint(directory)
    batches.foreach { case (served, engaged) => h.preload(served, engaged) }
    try {
      h.start()
      h.step(NeverLate.end._1, NeverLate.end._2)
      Right(Emitted.sorted((before ++ h.byBatch).values.flatten))
    } catch { case e: Exception => Left(e) }
    finally spark.streams.active.foreach(_.stop())
  }

  Seq(1, 2).foreach { format =>
    test(s"each kind of file, each damage: checkpoint format $format") {
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format) {
        withDirectory { root =>
          val whole = new File(root, "whole")
          val before = written(whole)
          val expected = NeverLate.expected(batches)
          for (kind <- kinds; damage <- damages(kind)) {
            val copy = new File(root, s"${kind.name} ${damage.name}".replace(' ', '-'))
            Checkpoint.copy(whole, copy)
            val (victim, others) = kind.find(copy)
            damage.harm(victim, others)
            withClue(s"${kind.name}, ${damage.name}: ") {
              restarted(copy, before).fold(
                checkNamed(kind, victim +: others, _),
                out => assert(out == expected)
              )
            }
          }
        }
      }
    }
  }

  /** Spark names its own files as it likes. */
  private def checkNamed(kind: Kind, files: Seq[File], error: Throwable): Assertion =
    if (!kind.ours) succeed
    else {
      val (condition, named) = UnluckyStream.fileNamed(error).getOrElse(throw error)
      // Settings of which a letter has changed are those of another join.
      if (kind.name == "settings" && condition == "TAILRACE_CHECKPOINT_INCOMPATIBLE") succeed
      else
        assert(
          Set("MISSING", "CORRUPT").map("TAILRACE_STATE_FILE_" + _)(condition) && files
            .map(_.getPath)
            .contains(new Path(named).toUri.getPath)
        )
    }

  test("a manifest of a partition without rows doesn't pass for that of another one") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(NeverLate.query(NeverLate.options())).start()
      h.step(Seq(Served("only", Times.seconds(1), 1)), Nil)
      h.stop()
      val manifests = Seq(0, 1).map(p => Checkpoint.newestFirst(partition(d, p), ".manifest").head)
      val (withRows, without) = manifests.partition(f => Files.readString(f.toPath).contains(".run"))
      Files.copy(without.head.toPath, withRows.head.toPath, StandardCopyOption.REPLACE_EXISTING)
      h.start().add(NeverLate.end._1, NeverLate.end._2)
      val (condition, parameters) = failureOf(h.streaming)
      assert(condition == "TAILRACE_STATE_FILE_CORRUPT")
      assert(new Path(parameters("file")).toUri.getPath == withRows.head.getPath)
    }
  }

  test("settings of another query's join are refused") {
    withDirectory { root =>
      val (one, other) = (new File(root, "one"), new File(root, "other"))
      written(one)
      val h = new StreamHarness(spark, other)(NeverLate.query(NeverLate.options("inner"))).start()
      h.step(batches.head._1, batches.head._2)
      h.stop()
      Damage.swap(new File(one, settings), new File(other, settings))
      val error = restarted(one, Map.empty).left.getOrElse(fail("it went on"))
      assert(UnluckyStream.fileNamed(error).map(_._1).contains("TAILRACE_CHECKPOINT_INCOMPATIBLE"))
    }
  }
}

object DamagedCheckpointSuite {

  /** @param ours whether Tailrace reads it, and must say so when it can't
    * @param find in a checkpoint: the file that a restart needs, and others of its kind
    */
  private final case class Kind(name: String, ours: Boolean, find: File => (File, Seq[File]))

  private final case class Harm(name: String, harm: (File, Seq[File]) => Unit)

  private val settings = "state/0/tailrace-join.json"

  private def partition(checkpoint: File, n: Int) = new File(checkpoint, s"state/0/$n")

  /** The newest one of partition 0, the one before it, and the newest one of partition 1. */
  private def perPartition(suffix: String)(checkpoint: File): (File, Seq[File]) = {
    def newest(p: Int) = Checkpoint.newestFirst(partition(checkpoint, p), suffix)
    (newest(0).head, Seq(newest(0)(1), newest(1).head))
  }

  private def log(name: String)(checkpoint: File): (File, Seq[File]) = {
    val files = Checkpoint.newestFirst(new File(checkpoint, name))
    (files.head, files.slice(1, 2))
  }

  private def alone(name: String)(checkpoint: File): (File, Seq[File]) = (new File(checkpoint, name), Nil)

  private val kinds = Seq(
    Kind("manifest", ours = true, perPartition(".manifest")),
    Kind("run", ours = true, perPartition(".run")),
    Kind("settings", ours = true, alone(settings)),
    Kind("schema", ours = true, alone("state/0/0/_metadata/schema")),
    Kind("operator metadata", ours = false, alone("state/0/_metadata/metadata")),
    Kind("offsets", ours = false, log("offsets")),
    Kind("commits", ours = false, log("commits")),
    Kind("query metadata", ours = false, alone("metadata"))
  )

  /** Spark's own files have no checksums: a bit in them that means something else is Spark's to find or not. */
  private def damages(kind: Kind): Seq[Harm] = {
    val flips = Seq(
      Harm("first bit flipped", (f, _) => Damage.flipBit(f, 0)),
      Harm("middle bit flipped", (f, _) => Damage.flipMiddle(f)),
      Harm("last bit flipped", (f, _) => Damage.flipBit(f, f.length.toInt - 1))
    ) ++ Campaign.seeds(short = 0).map { seed =>
      Harm(s"bit flipped $seed", (f, _) => Damage.flipBit(f, new Random(seed).nextInt(f.length.toInt)))
    }
    val swaps = Seq("neighbour", "other partition's").zipWithIndex.map { case (which, i) =>
      Harm(s"swapped with its $which", (f, others) => Damage.swap(f, others(i)))
    }
    (if (kind.ours) flips else flips.take(1)) ++ Seq(
      Harm("emptied", (f, _) => Damage.truncate(f, 0)),
      Harm("cut in half", (f, _) => Damage.truncate(f, f.length / 2)),
      Harm("last byte lost", (f, _) => Damage.truncate(f, f.length - 1)),
      Harm("deleted", (f, _) => Damage.delete(f))
    ) ++ (kind.name match {
      case "manifest" | "run" => swaps
      case "offsets" | "commits" => swaps.take(1)
      case _ => Nil
    })
  }
}
