package io.tailrace.checkpoint

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{DeadProcess, Slow, TempDirectory, WatchedFiles}

/** What a turn says is done, from wherever the one before has left it. */
final class RepartitionTurnSuite extends AnyFunSuite with TempDirectory {
  private val conf = WatchedFiles.configure(new Configuration)
  private val partitions = "spark.sql.shuffle.partitions"
  private val files = Seq("1/0/7.zip" -> "new", "1/0/SSTs/a.sst" -> "rows", "1/1/7.zip" -> "other")
  private val ids = Map("0" -> Seq(Seq("x"), Seq("y")), "1" -> Seq(Seq("p", "q"), Seq("r", "s")))

  private def root = new Path(directory.getPath)
  private def spark = new SparkCheckpoint(root, conf)
  private def staged = RepartitionTurn.stagedAt(root, "1")

  private def write(parent: Path, path: String, text: String): Unit =
    DurableFiles.in(parent, conf).write(new Path(parent, path))(_.write(text.getBytes(UTF_8)))

  private def read(path: String): String = Files.readString(new File(directory, path).toPath)

  private def names(path: String): Seq[String] =
    Option(new File(directory, path).list).toSeq.flatten.filterNot(_.startsWith(".")).sorted

  /** Three partitions, batch 6, and the state of two, which is to take their place. */
  private def begin(): RepartitionTurn = {
    emptyDirectory()
    Seq(5, 6).foreach(batch => write(root, s"offsets/$batch", s"""v1\n{"conf":{"$partitions":"3"}}\n9"""))
    write(
      root,
      "commits/6",
      """v2
{"nextBatchWatermarkMs":0,"stateUniqueIds":{"1":[["o"],["l"],["d"]]}}"""
    )
    write(
      root,
      "state/1/_metadata/metadata",
      """v1
{"stateStoreInfo":[{"numPartitions":3}]}"""
    )
    (0 to 2).foreach(partition => write(root, s"state/1/$partition/7.zip", s"before $partition"))
    files.foreach { case (path, text) => write(staged, s"state/$path", text) }
    write(staged, "state/1/_metadata/metadata", "of a checkpoint of its own")
    val next = spark.emptyBatch(6, 2)
    RepartitionTurn(6, next, None, 2, staged.getName, RepartitionTurn.filesOf(staged, conf), Seq(1), ids)
  }

  private def checkTurned(): Unit = {
    files.foreach { case (path, text) => assert(read(s"state/$path") == text) }
    assert(names("state/1") == Seq("0", "1", "_metadata"))
    assert(read("state/1/_metadata/metadata").contains("\"numPartitions\":2"))
    assert(spark.partitions(6) == 2 && spark.partitions(5) == 3)
    assert(spark.entryText(7).contains(spark.emptyBatch(6, 2)))
    assert(spark.commit(6).checkpointIds.get(1).map(_.toSeq).toSeq == ids("1"))
    assert(names("tailrace-rescale").isEmpty)
  }

  private def checkAsBefore(): Unit = {
    (0 to 2).foreach(partition => assert(read(s"state/1/$partition/7.zip") == s"before $partition"))
    assert(spark.partitions(6) == 3 && RepartitionTurn.find(root, conf).isEmpty)
  }

  test("it is done, from any step on where it was cut off, also twice", Slow) {
    def dies(at: Int): Int = {
      RepartitionTurn.write(root, conf, begin())
      val death = new DeadProcess(at)
      try WatchedFiles.watchedBy(death)(RepartitionTurn.finish(root, conf))
      catch { case _: Exception => assert(death.steps >= at) }
      RepartitionTurn.finish(root, conf)
      checkTurned()
      RepartitionTurn.finish(root, conf)
      checkTurned()
      death.steps
    }
    val all = dies(Int.MaxValue)
    assert(all > 15)
    (1 to all).foreach(dies(_): Unit)
  }

  test("without its new files, or when the query has gone on, it has no effect") {
    RepartitionTurn.write(root, conf, begin())
    Files.delete(new File(directory, s"tailrace-rescale/${staged.getName}/state/1/1/7.zip").toPath)
    RepartitionTurn.finish(root, conf)
    checkAsBefore()
    RepartitionTurn.write(root, conf, begin())
    write(root, "offsets/7", "v1\n{}")
    RepartitionTurn.finish(root, conf)
    checkAsBefore()
    assert(names("tailrace-rescale").isEmpty)
  }

  test("an empty batch that a command has begun, and no query has run, gets the new number") {
    val turn = begin()
    spark.beginEmptyBatch(6)
    assert(spark.partitions(7) == 3)
    RepartitionTurn.write(root, conf, turn.copy(former = spark.entryText(7)))
    RepartitionTurn.finish(root, conf)
    checkTurned()
  }

  test("new state is deleted that no turn names, and a turn that is withdrawn isn't done") {
    val turn = begin()
    write(RepartitionTurn.stagedAt(root, "2"), "state/1/0/7.zip", "of another command")
    RepartitionTurn.write(root, conf, turn)
    RepartitionTurn.deleteStaged(root, conf)
    assert(names("tailrace-rescale") == Seq(turn.staged, "turn"))
    RepartitionTurn.withdraw(root, conf)
    RepartitionTurn.finish(root, conf)
    checkAsBefore()
    RepartitionTurn.deleteStaged(root, conf)
    assert(names("tailrace-rescale").isEmpty)
  }

  test("a turn that is damaged, or of a later release, is refused by name") {
    RepartitionTurn.write(root, conf, begin())
    val text = read("tailrace-rescale/turn")
    def refused(damaged: String): String = {
      write(root, "tailrace-rescale/turn", damaged)
      val e = intercept[TailraceStateException](RepartitionTurn.finish(root, conf))
      assert(e.getMessage.contains("tailrace-rescale/turn"))
      e.getCondition
    }
    assert(refused(text.replace("\"batch\":6", "\"batch\":5")) == "TAILRACE_STATE_FILE_CORRUPT")
    assert(refused(text.replace("tailrace-turn 1", "tailrace-turn 2")) == "TAILRACE_STATE_FORMAT_UNSUPPORTED")
    write(root, "tailrace-rescale/turn", text)
    RepartitionTurn.finish(root, conf)
    checkTurned()
  }
}
