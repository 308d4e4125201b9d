package io.tailrace.ops.inspect

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, File, PrintStream}
import java.nio.file.Files

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.SparkThrowable
import org.json4s.jackson.JsonMethods
import org.scalatest.BeforeAndAfterAll

import io.tailrace.state.StateFileNames
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.{microsOf, seconds}
import io.tailrace.testkit.{
  Checkpoint,
  Damage,
  Engaged,
  Served,
  SlowSuite,
  SparkSuite,
  StreamHarness,
  TempDirectory
}

class CheckpointInspectionSuite extends SparkSuite with BeforeAndAfterAll with SlowSuite {
  private val keys = (1 to 12).map(i => s"key $i")
  private val grouped = options("10 seconds").copy(before = "5 seconds")

  private def served(t: Double, id: Int, k: String) = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String) = Engaged(k, seconds(t), id)

  private def inspection(d: File) =
    new CheckpointInspection(d.getPath, spark.sessionState.newHadoopConf())

  // Made once for each test that asks for the same.
  private val made = mutable.Map.empty[(String, Int), File]

  override protected def afterAll(): Unit = {
    made.values.foreach(d => TempDirectory.delete(d.toPath))
    super.afterAll()
  }

  /** The checkpoint of five batches with data. Rows that the watermark passes come out in between. */
  private def run(d: File, how: String = "left", format: Int = 1): Unit =
    Checkpoint.copy(made.getOrElseUpdate((how, format), make(how, format)), d)

  private def make(how: String, format: Int): File = {
    val d = Files.createTempDirectory("inspected").toFile
    withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format) {
      val h = new StreamHarness(spark, d)(join(grouped.copy(how = how))).start()
      (1 to 5).foreach { i =>
        h.step(
          keys.zipWithIndex.map { case (k, n) => served(i * 10 + n * 0.5, i, k) },
          keys.take(i).map(engaged(i * 10 + 2, i, _))
        )
      }
      h.stop()
    }
    d
  }

  private def condition(body: => Any): (String, Map[String, String]) =
    intercept[Exception](body) match {
      case e: SparkThrowable => e.getCondition -> e.getMessageParameters.asScala.toMap
      case e => throw e
    }

  /** The file of a version, which only one attempt has made. */
  private def manifestOf(d: File, partition: Int, version: Long): File = {
    val found = new File(d, s"state/0/$partition").listFiles.filter { file =>
      StateFileNames.manifestVersion(file.getName).contains(version)
    }
    assert(found.length == 1)
    found.head
  }

  /** Removes the checksum of the local file system, as object stores have none. */
  private def harm(file: File)(how: File => Unit): Unit = {
    assert(file.exists, file)
    Files.deleteIfExists(new File(file.getParentFile, s".${file.getName}.crc").toPath)
    how(file)
  }

  private def allFiles(d: File): Seq[String] = {
    val files = Files.walk(d.toPath)
    try files.iterator.asScala.map(_.toString).toSeq.sorted
    finally files.close()
  }

  for (format <- Seq(1, 2); how <- Seq("left", "inner"))
    test(s"rows and times are those that Spark's state reader finds: $how, checkpoint format $format") {
      withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format) {
        withDirectory { d =>
          run(d, how, format)
          val newest = inspection(d).report(None)
          assert(newest.checkpointFormat == format)
          val batches = new File(d, "commits").list.flatMap(_.toLongOption).sorted
          assert(newest.batch == batches.last && newest.version == batches.last + 1)
          (batches.map(b => Some(b + 1)).toSeq :+ None).foreach { version =>
            val report = inspection(d).report(version)
            val rows = spark.read
              .format("statestore")
              .option("batchId", report.batch)
              .load(d.getPath)
              .select("partition_id", "key.tailrace_store", "key.event_time")
              .collect()
              .toSeq
            val operator = report.operators.head
            assert(operator.rows == rows.size && operator.settings("how") == how)
            val found = rows.groupMap(r => (r.getInt(0), r.getString(1)))(r => microsOf(r.getTimestamp(2)))
            val perStore = for (p <- operator.partitions; s <- p.stores if s.rows > 0) yield (p.partition, s)
            assert(perStore.map { case (p, s) => (p, s.store) }.toSet == found.keySet)
            perStore.foreach { case (p, s) => checkTimes(s, found((p, s.store))) }
            operator.stores.filter(_.rows > 0).foreach { s =>
              checkTimes(
                s,
                found.collect { case ((_, name), times) if name == s.store => times }.flatten.toSeq
              )
            }
          }
        }
      }
    }

  private def checkTimes(store: StoreReport, times: Seq[Long]): Unit = {
    assert(store.rows == times.size && store.bytes > 0)
    assert(store.newest.contains(CheckpointReport.iso(times.max)))
    val oldest = CheckpointReport.iso(times.min)
    if (store.oldestIsBound)
      assert(java.time.Instant.parse(store.oldest.get).compareTo(java.time.Instant.parse(oldest)) <= 0)
    else assert(store.oldest.contains(oldest))
    ()
  }

  test("the report has the files that the version names and their bytes on disk; nothing is written") {
    withDirectory { d =>
      run(d)
      val before = allFiles(d)
      val operator = inspection(d).report(None).operators.head
      assert(allFiles(d) == before)
      operator.partitions.foreach { p =>
        val runs = new File(d, s"state/0/${p.partition}").listFiles
          .filter(f => StateFileNames.runVersion(f.getName).isDefined)
        assert(p.files > 0 && p.files <= runs.length)
        assert(p.fileBytes > 0 && p.fileBytes < runs.map(_.length).sum)
        assert(p.expiredThrough.isDefined && p.rows == p.stores.map(_.rows).sum)
      }
      assert(operator.files == operator.partitions.map(_.files).sum)
      assert(operator.fileBytes == operator.partitions.map(_.fileBytes).sum)
      assert(operator.partitions.size == 2)
    }
  }

  test("a directory without a checkpoint, a batch or a join is refused") {
    withDirectory { d =>
      assert(
        condition(inspection(d).report(None)) == ("TAILRACE_CHECKPOINT_NOT_FOUND" -> Map("path" -> d.getPath))
      )
      val gone = new File(d, "gone")
      assert(condition(inspection(gone).report(None))._1 == "TAILRACE_CHECKPOINT_NOT_FOUND")
      assert(!gone.exists)
      Files.createDirectory(new File(d, "commits").toPath)
      assert(condition(inspection(d).report(None))._1 == "TAILRACE_CHECKPOINT_WITHOUT_BATCH")
    }
    withDirectory { d =>
      val h = new StreamHarness(spark, d)((l, _) =>
        l.withWatermark("t", "1 second").dropDuplicatesWithinWatermark("id")
      )
      h.start().rows(Seq(served(1, 1, "k")), Nil)
      h.stop()
      val (name, parameters) = condition(inspection(d).report(None))
      assert(name == "TAILRACE_CHECKPOINT_WITHOUT_JOIN" && parameters("operators") == "dedupeWithinWatermark")
    }
  }

  test("the error for a version that was purged or doesn't exist yet names the versions that exist") {
    withDirectory { d =>
      run(d)
      val last = inspection(d).report(None).version
      // Spark's purge deletes manifests before commits.
      (1L to 2L).foreach(v =>
        (0 to 1).foreach(p => harm(manifestOf(d, p, v.toLong))(f => Files.delete(f.toPath)))
      )
      Seq(0L, 1L, last + 1).foreach { v =>
        val (name, parameters) = condition(inspection(d).report(Some(v)))
        assert(name == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
        assert(parameters("version") == v.toString && parameters("retained") == s"3 to $last")
      }
      assert(inspection(d).report(Some(3)).version == 3)
    }
  }

  test("the error names a damaged manifest (missing, changed or cut), commit or settings file") {
    def damaged(path: File => File)(how: File => Unit)(expected: String): Unit = withDirectory { d =>
      run(d)
      val file = path(d)
      harm(file)(how)
      val (name, parameters) = condition(inspection(d).report(None))
      // Without the file the attempt isn't known.
      val named = file.getPath.replaceFirst("1-[^/]+manifest$", if (file.exists) "$0" else "*.manifest")
      assert(name == expected && parameters("file").endsWith(named), parameters)
      ()
    }
    def newest(d: File): Long = new File(d, "commits").list.flatMap(_.toLongOption).max
    val manifest = (d: File) => manifestOf(d, 1, newest(d) + 1)
    damaged(manifest)(f => Files.delete(f.toPath))("TAILRACE_STATE_FILE_MISSING")
    damaged(manifest)(Damage.flipMiddle)("TAILRACE_STATE_FILE_CORRUPT")
    damaged(manifest)(Damage.truncate(_, 40))("TAILRACE_STATE_FILE_CORRUPT")
    damaged(d => new File(d, s"commits/${newest(d)}"))(Damage.truncate(_, 0))("TAILRACE_STATE_FILE_CORRUPT")
    damaged(d => new File(d, "state/0/tailrace-join.json"))(f => Files.delete(f.toPath))(
      "TAILRACE_STATE_FILE_MISSING"
    )
    damaged(d => new File(d, "state/0/tailrace-join.json"))(Damage.truncate(_, 9))(
      "TAILRACE_STATE_FILE_CORRUPT"
    )
  }

  test("the program prints JSON, also for refusals") {
    withDirectory { d =>
      def program(arguments: String*): (Int, Map[String, Any]) = {
        val out = new ByteArrayOutputStream
        val code = Inspect.run(arguments, new ByteArrayInputStream("{}".getBytes), new PrintStream(out))
        code -> JsonMethods.parse(out.toString("UTF-8")).values.asInstanceOf[Map[String, Any]]
      }
      run(d)
      val (0, report) = program(d.getPath, "3"): @unchecked
      assert(report("version") == 3 && report("checkpointFormat") == 1 && report.contains("watermark"))
      val (1, refusal) = program(d.getPath, "99"): @unchecked
      assert(refusal("condition") == "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED")
      assert(refusal("message").toString.contains("99"))
      val (1, unreadable) = program("nosuchscheme://x/y"): @unchecked
      assert(unreadable("condition") == "TAILRACE_STATE_UNREADABLE")
    }
  }

  test("ranges of numbers as text") {
    assert(CheckpointInspection.ranges(Nil) == "")
    assert(CheckpointInspection.ranges(Seq(4)) == "4")
    assert(CheckpointInspection.ranges(Seq(1, 2, 3, 5, 7, 8)) == "1 to 3, 5, 7 to 8")
  }
}
