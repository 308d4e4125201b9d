package io.tailrace.label

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.FileStep._
import io.tailrace.testkit.{Campaign, CampaignSuite, FileStep, KillableQuery, NeverLate, TempDirectory}

/** A process dies at each step of a batch, one after the other, on one checkpoint. In the end the rows are
  * those of a process that never died, and a batch that runs again gives the rows of the first time.
  */
final class KilledQuerySuite extends AnyFunSuite with TempDirectory with CampaignSuite {

  /** In the order of a batch. The number counts the steps since the process started. */
  private val commit: Seq[(FileStep, String, Int)] = Seq(
    (Create, "run$", 1),
    (Renamed, "run$", 1),
    (Rename, "manifest$", 1),
    (Renamed, "manifest$", 2),
    (Create, "/commits/", 1)
  )

  private val others: Seq[(FileStep, String, Int)] = Seq(
    (Renamed, "/tailrace-join.json$", 1),
    (Write, "run$", 2),
    (Close, "run$", 2),
    (Rename, "run$", 1),
    (Create, "manifest$", 2),
    (Write, "manifest$", 1),
    (Close, "manifest$", 2),
    (Renamed, "/commits/", 2),
    (Renamed, "/offsets/", 1),
    (Open, "manifest$", 1),
    (Read, "run$", 1),
    (Delete, "run$", 1),
    (Delete, "manifest$", 1)
  )

  private val steps = if (Campaign.isLong) others.head +: (commit ++ others.tail) else commit

  private def process(arguments: String*): Int = {
    val runtime = ManagementFactory.getRuntimeMXBean
    val options =
      runtime.getInputArguments.asScala.filter(o => o.startsWith("--add-opens") || o.startsWith("-D"))
    val java = new File(System.getProperty("java.home"), "bin/java").getPath
    val command = Seq(java) ++ options ++
      Seq(
        "-Xmx1g",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        runtime.getClassPath,
        "io.tailrace.testkit.KillableQuery"
      ) ++
      (directory.getPath +: arguments)
    val log = new File(directory, "log")
    val running = new ProcessBuilder(command.asJava)
      .redirectErrorStream(true)
      .redirectOutput(ProcessBuilder.Redirect.to(log))
      .start()
    try
      if (running.waitFor(3, TimeUnit.MINUTES)) running.exitValue
      else fail(s"${arguments.mkString(" ")} hangs: ${tail(log)}")
    finally running.destroyForcibly()
  }

  private def tail(log: File): String = Files.readString(log.toPath).takeRight(4000)

  private def output: Map[String, Seq[String]] =
    new File(directory, "out").listFiles
      .map(f => f.getName -> Files.readAllLines(f.toPath).asScala.toSeq)
      .toMap

  // A run of the tests has time for one format. The long campaign has both.
  (if (Campaign.isLong) Seq(1, 2) else Seq(2)).foreach { format =>
    test(s"killed at each step of a batch: checkpoint format $format") {
      val random = new Random(format)
      val batches = (0 until 2 * steps.size).map(NeverLate.batch(_, random))
      (batches :+ NeverLate.end).zipWithIndex.foreach { case (batch, i) =>
        KillableQuery.feed(directory, i, batch)
      }
      Files.writeString(new File(directory, "format").toPath, format.toString)
      assert(new File(directory, "out").mkdir())
      steps.foreach { case (step, pattern, nth) =>
        val code = process(step.toString, pattern, nth.toString)
        assert(code == KillableQuery.Killed, s"at $step of $pattern: ${tail(new File(directory, "log"))}")
      }
      assert(process() == 0, tail(new File(directory, "log")))
      assert(output.keySet.filter(_.endsWith(".differs")).isEmpty)
      assert(output.values.flatten.toSeq.sorted == NeverLate.expected(batches).map(_.toString).sorted)
    }
  }
}
