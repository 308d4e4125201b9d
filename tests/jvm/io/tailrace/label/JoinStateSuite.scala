package io.tailrace.label

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import io.tailrace.common.TailraceConf
import io.tailrace.join.JoinMetrics
import io.tailrace.testkit.StreamHarness.{join, options}
import io.tailrace.testkit.Times.seconds
import io.tailrace.testkit.{Emitted, Engaged, Served, SparkSuite, StateReader, StreamHarness}

/** The state of a join in its checkpoint: rows leave it in time, and a query whose files are missing fails.
  */
class JoinStateSuite extends SparkSuite {
  private val Left = "left-time-sorted"
  private val LeftByKey = "left-key-sorted"
  private val Right = "right-key-sorted"

  private def served(t: Double, id: Int, k: String = "k") = Served(k, seconds(t), id)
  private def engaged(t: Double, id: Int, k: String = "k") = Engaged(k, seconds(t), id)

  private def state(h: StreamHarness, d: File): Map[String, Int] = StateReader.rows(spark, d, h.batchCount)

  private val keys = (1 to 20).map(i => s"key $i")

  test(
    "left: rows that have come out leave the state, and it is empty when the watermark has passed all rows"
  ) {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(join(options("10 seconds").copy(before = "5 seconds"))).start()
      h.step(keys.map(served(10, 1, _)), keys.map(engaged(12, 2, _)) ++ keys.map(engaged(90, 3, _)))
      assert(state(h, d) == Map(Left -> 20, Right -> 40))
      h.step(Seq(served(15, 4)), Nil)
      assert(state(h, d) == Map(Left -> 21, Right -> 40))
      // The watermark is at 20: the first left rows come out. Right rows of 12 may still match the left row
      // of 15.
      assert(h.step(Seq(served(20, 5)), Nil).flatten.size == 20)
      assert(state(h, d) == Map(Left -> 2, Right -> 40))
      h.step(Seq(served(40, 6)), Nil)
      assert(state(h, d) == Map(Left -> 1, Right -> 20))
      // Rows far ahead in time: all earlier rows expire.
      h.step(Seq(served(500, 7)), Seq(engaged(500, 8)))
      h.step(Seq(Served("k", null, 9)), Seq(engaged(1, 10)))
      assert(state(h, d) == Map(Left -> 1, Right -> 1))
      h.step(Seq(Served(null, seconds(600), 11)), Seq(Engaged(null, seconds(600), 12)))
      assert(state(h, d) == Map(Left -> 1))
    }
  }

  test("inner: a row leaves the state when no partner can come, and at the end the state is empty") {
    withDirectory { d =>
      val h = new StreamHarness(spark, d)(join(options("10 seconds").copy(how = "inner"))).start()
      h.step(keys.map(served(10, 1, _)), keys.map(engaged(12, 2, _)))
      // The watermark is at 10: with before = 0 the right rows of 12 are still needed.
      assert(state(h, d) == Map(LeftByKey -> 20, Right -> 20))
      h.step(Seq(Served(null, seconds(15), 3)), Seq(Engaged(null, seconds(15), 4)))
      assert(state(h, d) == Map(LeftByKey -> 20))
      h.step(Seq(Served(null, seconds(20), 3)), Seq(Engaged(null, seconds(20), 4)))
      assert(state(h, d) == Map.empty)
      // All rows have left, and no file is left: a restart finds the empty state.
      h.restart()
      h.step(Seq(served(30, 5)), Seq(engaged(31, 6)))
      assert(h.all.size == 21)
    }
  }

  Seq("left", "inner").foreach { how =>
    test(s"progress says what is there: $how") {
      withRunsInFiles(withDirectory { d =>
        val h = new StreamHarness(spark, d)(join(options("10 seconds").copy(how = how))).start()
        def check(): Unit = {
          val p = h.progress()
          assert(p.numRowsTotal == state(h, d).values.sum)
          assert(
            p.operatorName == "tailraceLabelJoin" && p.numShufflePartitions == 2 && p.numStateStoreInstances == 2
          )
          // Those of a sample with a ratio are of examples that have one.
          val balanced = LabelMetrics.names.filter(_.startsWith("balanced")).toSet
          assert(balanced.size == 3 && p.customMetrics.keySet.asScala == LabelMetrics.names.toSet -- balanced)
          ()
        }
        h.step(keys.map(served(10, 1, _)), keys.take(5).map(engaged(12, 2, _)))
        check()
        val sizes = h.progress().customMetrics
        assert(sizes.get(JoinMetrics.LeftStoreBytes) > sizes.get(JoinMetrics.RightStoreBytes))
        assert(sizes.get(JoinMetrics.RightStoreBytes) > 0)
        val runs = Files.walk(new File(d, "state/0").toPath)
        val runBytes =
          try runs.iterator.asScala.filter(_.toString.endsWith(".run")).map(Files.size(_)).sum
          finally runs.close()
        assert(sizes.get(JoinMetrics.StateFileBytes) == runBytes)
        h.step(Seq(served(15, 3)), Seq(engaged(15, 4)))
        check()
        h.step(Seq(served(40, 3)), Seq(engaged(40, 4)))
        check()
        val reports = h.reports.map(_.head)
        // The rows written, less the rows removed, are the rows in the state.
        assert(reports.map(_.numRowsUpdated).sum == 29)
        assert(
          reports.map(_.numRowsUpdated).sum - reports.map(_.numRowsRemoved).sum == state(h, d).values.sum
        )
        if (how == "left") {
          assert(h.total(LabelMetrics.GroupsEmitted) == 21)
          assert(h.total(LabelMetrics.GroupsMatched) == 6 && h.total(LabelMetrics.GroupsUnmatched) == 15)
        }
        // (key 1 to key 5 with their one label) and the pair at 15; on match the pair at 40, too.
        assert(h.total(LabelMetrics.LabelsEmitted) == (if (how == "left") 6 else 7))
        assert(h.total(JoinMetrics.LoadedBytes) == 0 && h.total(JoinMetrics.LoadTimeMs) == 0)
        val waiting = h.progress().customMetrics.get(JoinMetrics.StateFileBytes).longValue
        h.restart()
        h.step(Seq(served(41, 3)), Nil)
        assert(waiting > 0 && h.total(JoinMetrics.LoadedBytes) == waiting)
      })
    }
  }

  MatchStrategy.values.foreach { strategy =>
    test(
      s"groups that max_matches has cut are counted, and the matches that it leaves out: ${strategy.name}"
    ) {
      withConf(TailraceConf.JoinStrategy.key -> strategy.name) {
        withDirectory { d =>
          val h = new StreamHarness(spark, d)(join(options("10 seconds").copy(maxMatches = Some(2)))).start()
          // Key i has i matches: 3, 4 and 5 are cut, by 1, 2 and 3.
          h.step(
            keys.take(5).map(served(10, 1, _)),
            keys.take(5).zipWithIndex.flatMap { case (key, i) => (0 to i).map(j => engaged(11 + j, j, key)) }
          )
          h.step(Seq(served(90, 3)), Seq(engaged(90, 4)))
          assert(h.total(LabelMetrics.GroupsTruncated) == 3 && h.total(LabelMetrics.LabelsTruncated) == 6)
          assert(h.total(LabelMetrics.LabelsEmitted) == 1 + 4 * 2)
        }
      }
    }
  }

  test("a restart goes on from the version ids of checkpoint format 2") {
    withConf("spark.sql.streaming.stateStore.checkpointFormatVersion" -> 2) {
      withDirectory { d =>
        val h = new StreamHarness(spark, d)(join(options("10 seconds"))).start()
        h.step(Seq(served(10, 1)), Seq(engaged(12, 2)))
        h.restart()
        h.step(Seq(served(12, 3)), Seq(engaged(13, 4)))
        h.restart()
        h.step(Seq(served(90, 5)), Seq(engaged(90, 6)))
        assert(h.all == Seq(Emitted("k", Some(1), Seq(2, 4)), Emitted("k", Some(3), Seq(2, 4))))
        val manifests =
          new File(d, "state/0/0").list.filter(n => n.endsWith(".manifest") && n(0) != '.')
        assert(manifests.nonEmpty && manifests.forall(_.matches("""\d+_[0-9a-f-]{36}\.manifest""")))
      }
    }
  }

  private def withRunsInFiles[T](body: => T): T = withConf(TailraceConf.InlineRunBytes.key -> 0)(body)

  /** Stops a query, does `harm` to a state file and gives the condition that the restarted query ends with.
    */
  private def afterHarm(suffix: String)(harm: File => Unit): (String, String, File) = withDirectory { d =>
    val inline = if (suffix == ".run") 0L else TailraceConf.InlineRunBytes.default
    withConf("spark.sql.shuffle.partitions" -> 1, TailraceConf.InlineRunBytes.key -> inline) {
      val h = new StreamHarness(spark, d)(join(options("10 seconds"))).start()
      h.step(Seq(served(10, 1)), Seq(engaged(12, 2)))
      h.stop()
      val file = new File(d, "state/0/0").listFiles
        .filter(f => f.getName.endsWith(suffix) && !f.getName.startsWith("."))
        .maxBy(_.getName)
      harm(file)
      // Without the file system's own checksums, which object stores don't have.
      Files.deleteIfExists(new File(file.getParentFile, s".${file.getName}.crc").toPath)
      h.start().add(Seq(served(13, 3)), Seq(engaged(14, 4)))
      val (condition, parameters) = failureOf(h.streaming)
      (condition, parameters("file"), file)
    }
  }

  Seq(".run", ".manifest").foreach { suffix =>
    test(s"a missing $suffix fails the restarted query with the file's name") {
      val (condition, named, file) = afterHarm(suffix)(f => Files.delete(f.toPath))
      assert(condition == "TAILRACE_STATE_FILE_MISSING")
      // Without the file the attempt isn't known.
      assert(named.endsWith(file.getPath.replaceFirst("1-[^/]+manifest$", "*.manifest")))
    }

    test(s"one changed byte in a $suffix fails the restarted query with the file's name") {
      val (condition, named, file) = afterHarm(suffix) { f =>
        val bytes = Files.readAllBytes(f.toPath)
        bytes(bytes.length / 2) = (bytes(bytes.length / 2) ^ 1).toByte
        Files.write(f.toPath, bytes)
        ()
      }
      assert(condition == "TAILRACE_STATE_FILE_CORRUPT")
      assert(named.endsWith(file.getPath))
    }

    test(s"a truncated $suffix fails the restarted query with the file's name") {
      val (condition, named, file) = afterHarm(suffix) { f =>
        Files.write(f.toPath, Files.readAllBytes(f.toPath).dropRight(10))
        ()
      }
      assert(condition == "TAILRACE_STATE_FILE_CORRUPT")
      assert(named.endsWith(file.getPath))
    }
  }
}
