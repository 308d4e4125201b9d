package io.tailrace.plan

import java.io.{File, IOException, RandomAccessFile}
import java.nio.file.{Files, NoSuchFileException}
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{ConcurrentSkipListMap, CountDownLatch, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.tailrace.{MemoryStream, SparkState, StreamAccess}
import org.apache.spark.sql.{Dataset, Row}

import io.tailrace.testkit.HostQueries.{Arrivals, Arrived}
import io.tailrace.testkit.{Campaign, CampaignSuite, Damage, SparkSuite}

/** Local files of the state that are deleted, cut and flipped between micro-batches and while they run, of each operator that
  * keeps some. The rows are those of a run in which nobody has touched them, in one attempt of each task, and what was made
  * again is counted.
  *
  * `TAILRACE_FAULTS` is the number of seeds of a long campaign.
  */
class LocalDamageCampaignSuite extends SparkSuite with CampaignSuite {
  import LocalDamageCampaignSuite._
  import spark.implicits._

  private val all = DamagedQueries.golden.filter(_.name.matches("(?!join beside).*join.*")) ++
    DamagedQueries.added :+ DamagedQueries.all.find(_.name == "label join, format 2").get

  // The local files are the same in both of Spark's checkpoint formats.
  private val queries = if (Campaign.isLong) all else all.filterNot(_.name.endsWith("format 1"))

  queries.foreach { query =>
    lazy val expected = run(query, nobody)._1

    test(s"${query.name} gives the same rows, whatever happens to its local files") {
      var replaced = 0L
      Campaign.seeds(1).foreach { seed =>
        val (found, counted) = run(query, new Damager(_, new Random(seed.toLong)))
        assert(found == expected, s"seed $seed")
        assert(counted > 0, s"seed $seed: nothing was damaged")
        replaced += counted
      }
      info(s"seeds 0 to ${Campaign.seeds(1).last}: $replaced files were made again")
      assert(expected.nonEmpty)
    }
  }

  private val nobody: File => Damages = _ =>
    new Damages {
      override def between(): Unit = ()
      override def during[T](body: => T): T = body
    }

  /** @return the rows in an order of their own, and how many local files were made again */
  private def run(query: DamagedQuery, damager: File => Damages): (Seq[String], Long) = {
    val few = Seq("spark.sql.shuffle.partitions" -> 2, "spark.tailrace.state.compactionRuns" -> 4)
    withConf(few ++ query.settings: _*) {
      withDirectory { directory =>
        val checkpoint = new File(directory, "checkpoint")
        val damages = damager(checkpoint)
        val served = MemoryStream[Arrived](spark)
        val logs = MemoryStream[Arrived](spark)
        val rows = new ConcurrentSkipListMap[Long, Seq[String]]
        val running = query
          .build(served.toDF(), logs.toDF())
          .writeStream
          .option("checkpointLocation", checkpoint.getPath)
          .foreachBatch { (batch: Dataset[Row], id: Long) =>
            rows.put(id, batch.collect().map(_.toString).toSeq): Unit
          }
          .start()
        def arrive(batch: Arrivals): Unit = {
          damages.between()
          damages.during {
            StreamAccess.betweenBatches(running) {
              served.addData(batch.served)
              logs.addData(batch.logs)
            }
            running.processAllAvailable()
          }
        }
        (query.batches :+ query.end).foreach(arrive)
        // Those that the last batch's watermark lets out, too.
        damages.between()
        running.processAllAvailable()
        val counted = running.recentProgress.toSeq
          .filter(_.durationMs.containsKey("addBatch"))
          .flatMap(_.stateOperators)
          .map(_.customMetrics.asScala.get("replacedCopies").fold(0L)(_.longValue))
          .sum
        running.stop()
        rows.values.asScala.flatten.toSeq.sorted -> counted
      }
    }
  }
}

private object LocalDamageCampaignSuite {

  trait Damages {

    /** Damages files while no batch runs. */
    def between(): Unit

    /** Damages files from time to time while `body` runs. */
    def during[T](body: => T): T
  }

  private val Folder = """tailrace-\d+-\d+-.*""".r
  private val PauseMillis = 15L

  /** Of all local files that are copies of a checkpoint's files: those that a task has just written are its own. */
  final class Damager(checkpoint: File, random: Random) extends Damages {

    override def between(): Unit = copies.filter(_ => random.nextBoolean()).foreach(damage)

    override def during[T](body: => T): T = {
      val ended = new CountDownLatch(1)
      val failed = new AtomicReference[Throwable]
      val thread = new Thread(() =>
        try
          while (!ended.await(PauseMillis, TimeUnit.MILLISECONDS)) {
            val found = copies
            if (found.nonEmpty) damage(found(random.nextInt(found.size)))
          }
        catch { case e: Throwable => failed.set(e) }
      )
      thread.start()
      try body
      finally {
        ended.countDown()
        thread.join()
        Option(failed.get).foreach(throw _)
      }
    }

    private def copies: Seq[File] = {
      val stored = storedNames
      for {
        folder <- list(localRoot)
        if Folder.matches(folder.getName)
        file <- list(folder)
        if stored(file.getName.takeWhile(_ != '#'))
      } yield file
    }

    /** The names of the files that the state has in the checkpoint. */
    private def storedNames: Set[String] =
      for {
        operator <- list(new File(checkpoint, "state")).toSet[File]
        partition <- list(operator)
        file <- list(partition)
      } yield file.getName

    private def list(directory: File): Seq[File] = Option(directory.listFiles).toSeq.flatten.sortBy(_.getName)

    private lazy val localRoot: File = {
      val probe = SparkState.localDirectory("tailrace-probe")
      Files.delete(probe.toPath)
      probe.getParentFile
    }

    private def damage(file: File): Unit =
      try
        random.nextInt(3) match {
          case 0 => Files.deleteIfExists(file.toPath): Unit
          case 1 => Damage.truncate(file, random.nextInt(Math.max(1, file.length.toInt)).toLong)
          case _ => flip(file)
        }
      catch {
        // The state has just given it up.
        case _: NoSuchFileException =>
        case e: IOException if !file.exists => assert(e != null)
      }

    /** In place: who has it open reads it. */
    private def flip(file: File): Unit = if (file.length > 0) {
      val bytes = new RandomAccessFile(file, "rw")
      try
        if (bytes.length > 0) {
          val at = random.nextInt(bytes.length.toInt).toLong
          bytes.seek(at)
          val before = bytes.read()
          bytes.seek(at)
          bytes.write(before ^ (1 << random.nextInt(8)))
        }
      finally bytes.close()
    }
  }
}
