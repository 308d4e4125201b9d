package io.tailrace.label

import scala.util.Random

import org.apache.hadoop.fs.Path

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.FileStep._
import io.tailrace.testkit.{
  Campaign,
  CampaignSuite,
  FileFault,
  FileFaults,
  FileStep,
  NeverLate,
  SparkSuite,
  StateReader,
  UnluckyStream,
  WatchedFiles
}

/** Streams over a file system that fails. Whichever step and file it is, the query that is started again
  * gives the rows of one that never failed. If the file is Tailrace's, the error names it.
  */
class StreamFaultsSuite extends SparkSuite with CampaignSuite {

  /** @param runsInFiles whether each run has a file, as large ones have */
  private def withFailingFiles[T](format: Int, partitions: Int, retain: Int, runsInFiles: Boolean)(
      body: => T
  ): T = withConf(
    TailraceConf.InlineRunBytes.key -> (if (runsInFiles) 0L else TailraceConf.InlineRunBytes.default),
    WatchedFiles.Key -> classOf[WatchedFiles].getName,
    "spark.sql.shuffle.partitions" -> partitions,
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> format,
    "spark.sql.streaming.minBatchesToRetain" -> retain
  )(body)

  /** Makes one step fail in the next attempt, whose error must name it. */
  private def strike(stream: UnluckyStream, fault: FileFault, batch: Option[NeverLate.Batch]): Unit = {
    val (error, fired) = FileFaults.during(fault)(stream.attempt(batch))
    assert(fired.size == 1, fault)
    val found = error.getOrElse(fail(s"$fault: the query went on"))
    if (fired.head._2.toUri.getPath.contains("/state/")) {
      val named = UnluckyStream.fileNamed(found)
      val file = fired.head._2.toUri.getPath
      assert(named.map(_._1).contains("TAILRACE_STATE_FILE_UNAVAILABLE"), s"$fault: $found")
      assert(new Path(named.get._2).toUri.getPath == file, fault)
    }
  }

  private val writes = Seq(Create, Write, Close, Rename, Renamed)

  for (format <- Seq(1, 2); runsInFiles <- Seq(true, false)) {
    val layout =
      s"checkpoint format $format, runs in ${if (runsInFiles) "files of their own" else "manifests"}"
    val stateFiles = if (runsInFiles) Seq("run$", "manifest$") else Seq("manifest$")
    val tags = if ((format == 1) == runsInFiles) Nil else Seq(Campaign.Long)
    test(s"each step of a first batch, a commit and a restart fails once: $layout", tags: _*) {
      // There must be nothing to purge, or Spark's maintenance thread would get the fault instead of the
      // query.
      withFailingFiles(format, partitions = 1, retain = 1000, runsInFiles) {
        withDirectory { d =>
          val random = new Random(format)
          var batches = 0
          def next(): Option[NeverLate.Batch] = {
            batches += 1
            Some(NeverLate.batch(batches, random))
          }
          val stream = new UnluckyStream(spark, d, "left")
          // Each of them in the first batch, which is made again each time. A schema file that is there isn't
          // written.
          strike(stream, FileFault(Create, "/offsets/".r), next())
          for (step <- writes; file <- Seq("/tailrace-join.json$", "/_metadata/schema$"))
            strike(stream, FileFault(step, file.r), None)
          stream.persistently(None)
          for (step <- Sync +: writes; file <- stateFiles) {
            strike(stream, FileFault(step, file.r), next())
            stream.persistently(None)
          }
          for (step <- Seq(Create, Rename, Renamed); log <- Seq("/offsets/", "/commits/")) {
            strike(stream, FileFault(step, log.r), next())
            stream.persistently(None)
          }
          for {
            step <- Seq(Open, Read)
            file <- stateFiles ++
              Seq("/tailrace-join.json$", "/_metadata/schema$", "/offsets/", "/commits/")
          } {
            stream.stop()
            strike(stream, FileFault(step, file.r), next())
          }
          stream.finish()
        }
      }
    }
  }

  test("streams that fail at random moments give the rows of one that doesn't") {
    val fired = Campaign.seeds(short = 2).map { seed =>
      val random = new Random(seed)
      val how = if (seed % 3 == 2) "inner" else "left"
      withFailingFiles(1 + seed % 2, partitions = 2, retain = 2, runsInFiles = seed % 4 < 2) {
        withDirectory { d =>
          val stream = new UnluckyStream(spark, d, how)
          val faults = Seq.fill(8) {
            val file = Seq("run$", "manifest$", "/state/", ".").map(_.r)
            FileFault(
              FileStep.all(random.nextInt(FileStep.all.size)),
              file(random.nextInt(file.size)),
              1 + random.nextInt(30),
              1 + random.nextInt(3)
            )
          }
          withClue(s"seed $seed, $faults: ") {
            val (_, fired) = FileFaults.during(faults: _*) {
              (1 to 8).foreach { i =>
                stream.persistently(Some(NeverLate.batch(i, random)))
                if (random.nextInt(3) == 0) stream.stop()
                StateReader.purge(spark, d, partitions = 2)
              }
            }
            stream.finish()
            fired.size
          }
        }
      }
    }
    assert(fired.sum >= 2 * fired.size, "too few steps have failed: it proves little")
  }
}
