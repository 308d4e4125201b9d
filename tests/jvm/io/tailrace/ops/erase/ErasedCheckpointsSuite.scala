package io.tailrace.ops.erase

import java.io.File

import scala.util.Random

import org.apache.hadoop.fs.Path

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.TailraceStateException
import io.tailrace.plan.GoldenCheckpoints.Left
import io.tailrace.plan.{GoldenCheckpoints, GoldenQuery}
import io.tailrace.testkit._

/** Queries that were cut off within a batch go on after an erasure, and after one that died at any step. */
final class ErasedCheckpointsSuite extends SparkSuite with SlowSuite {
  private val joins = GoldenCheckpoints.archives.filter { case (query, _) =>
    Seq("lazy", "eager", "inner", "synced", "rescaled", "label join of groups").exists(
      query.name.startsWith(_)
    )
  }

  private def withQuery[T](query: GoldenQuery, archive: File)(body: (File, Left) => T): T =
    withConf(query.settings: _*) {
      withDirectory { root =>
        body(root, GoldenCheckpoints.unpack(archive, root))
      }
    }

  /** Erases some of the left rows. */
  private def erase(root: File, query: GoldenQuery): EraseReport = {
    val where = if (query.name.contains("synced")) "left.id % 2 = 0" else "id % 2 = 0"
    new Erase(spark, checkpoint(root), EraseOptions(Some(where))).run()
  }

  private def checkpoint(root: File) = new File(root, "checkpoint").getPath

  private def goOn(query: GoldenQuery, archive: File)(before: File => Unit): Seq[String] =
    withQuery(query, archive) { (root, left) =>
      before(root)
      query.goOn(spark, root, left.before)
    }

  joins.foreach { case (query, archive) =>
    test(s"${archive.getParentFile.getName}, ${query.name}", Campaign) {
      withQuery(query, archive) { (root, left) =>
        val report = erase(root, query)
        assert(report.sides.map(_.erased).sum > 0)
        assert(erase(root, query).sides.map(_.erased).sum == 0)
        val rows = query.goOn(spark, root, left.before)
        assert(rows != left.whole)
        val partitions = new File(root, "checkpoint/state/0").list.filter(_.forall(_.isDigit))
        partitions.foreach { partition =>
          val names = new File(root, s"checkpoint/state/0/$partition").list
            .filterNot(name => name.startsWith("_") || name.startsWith("."))
          assert(names.length == 1 && names.head.startsWith("of-"))
        }
      }
    }
  }

  Seq("lazy join, format 2", "eager join, format 1", "synced join", "label join of groups, format 2")
    .foreach { name =>
      test(s"$name: an erasure that dies", Campaign) {
        val (query, archive) = joins.filter(_._1.name == name).last
        val erased = goOn(query, archive)(erase(_, query): Unit)
        val whole = goOn(query, archive)(_ => ())
        assert(erased != whole)
        def steps(at: Int, again: Boolean): Int = {
          val dead = new DeadProcess(at)
          val rows = goOn(query, archive) { root =>
            withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
              try WatchedFiles.watchedBy(dead)(erase(root, query)): Unit
              catch { case _: Exception => assert(dead.steps >= at) }
            }
            if (again) erase(root, query): Unit
          }
          if (again) assert(rows == erased, s"died at step $at, and erased again")
          else assert(rows == erased || rows == whole, s"died at step $at")
          dead.steps
        }
        val all = steps(Int.MaxValue, again = false)
        assert(all > 10)
        val random = new Random(all.toLong)
        Campaign.seeds(short = 3).foreach(n => steps(1 + random.nextInt(all), again = n % 2 == 0): Unit)
      }
    }

  test("other operators with state are refused by name, or left as they are") {
    val (query, archive) =
      GoldenCheckpoints.archives.find(_._1.name.startsWith("join beside other operators")).get
    withQuery(query, archive) { (root, left) =>
      val e = intercept[TailraceStateException](erase(root, query))
      assert(e.getCondition == "TAILRACE_STATE_ERASE_OTHERS")
      val options = EraseOptions(Some("id % 2 = 0"), onlyTailrace = true)
      val report = new Erase(spark, checkpoint(root), options).run()
      assert(report.untouched.count(_.contains("Spark's own")) > 0)
      assert(query.goOn(spark, root, left.before) != left.whole)
    }
    val (recursion, rows) = GoldenCheckpoints.archives.find(_._1.name == "recursion").get
    withQuery(recursion, rows) { (root, _) =>
      val e = intercept[TailraceStateException](erase(root, recursion))
      assert(e.getCondition == "TAILRACE_STATE_ERASE_RECURSION")
    }
  }

  test("another batch that is completed meanwhile keeps the state of before") {
    val (query, archive) = joins.find(_._1.name == "lazy join, format 1").get
    withQuery(query, archive) { (root, left) =>
      // Steps are numbered from 1. The last of them are deletions, behind the turn.
      val log = new SparkCheckpoint(new Path(checkpoint(root)), spark.sessionState.newHadoopConf())
      val begun = log.begunBatches.last
      val commit = new File(checkpoint(root), s"commits/$begun")
      val watcher: WatchedFiles.Watcher = (step, path) =>
        if (step == FileStep.Renamed && path.getName == "tailrace-join.json" && !commit.exists)
          java.nio.file.Files.copy(
            new File(checkpoint(root), s"commits/${begun - 1}").toPath,
            commit.toPath
          ): Unit
      withConf(WatchedFiles.Key -> classOf[WatchedFiles].getName) {
        val e = intercept[TailraceStateException](WatchedFiles.watchedBy(watcher)(erase(root, query)))
        assert(e.getCondition == "TAILRACE_STATE_IN_USE")
      }
      commit.delete()
      assert(query.goOn(spark, root, left.before) == left.whole)
    }
  }
}
