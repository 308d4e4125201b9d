package io.tailrace.checkpoint

import java.io.{ByteArrayOutputStream, EOFException, File}
import java.nio.file.Files

import scala.util.{Random, Try}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FileAlreadyExistsException, FileSystem, Path}
import org.apache.spark.sql.tailrace.CheckpointFileManager
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.ObjectStore._
import io.tailrace.testkit.{ObjectStore, ObjectStoreFileSystem, Slow, TempDirectory}

final class RecentEntriesSuite extends AnyFunSuite with TempDirectory {
  private val root = new Path(s"${ObjectStoreFileSystem.Name}/checkpoint")
  private val logs = Seq("offsets", "commits", "sources/0", "_spark_metadata").map(new Path(root, _))
  private def newManager: CheckpointFileManager =
    TailraceFileManager.forPath(root, ObjectStoreFileSystem.configure(new Configuration))

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    ObjectStore.wipe("")
    // The first manager finds out whether the store refuses the second of two writers.
    val files = newManager
    files.add(new Path(root, "offsets/0"), "first")
    assert(!files.exists(new Path(root, "offsets/1")))
    ObjectStore.wipe("")
  }

  private implicit final class Manager(files: CheckpointFileManager) {
    def add(entry: Path, text: String, overwrite: Boolean = false): Unit = {
      val out = files.createAtomic(entry, overwrite)
      out.write(text.getBytes)
      out.close()
    }
    def text(entry: Path): String = {
      val in = files.open(entry)
      try new String(in.readAllBytes())
      finally in.close()
    }
  }

  private def requestsOf(body: => Any): Map[Method, Int] = {
    ObjectStore.clear()
    body
    ObjectStore.counts()
  }

  test("the writer of an entry asks for nothing when it reads it, and writes the next one") {
    logs.foreach { log =>
      val files = newManager
      def entry(number: Int) = new Path(log, if (number == 9) "9.compact" else s"$number")
      assert(requestsOf(assert(!files.exists(entry(5)))) == Map(Head -> 1), "it may be another writer's")
      files.add(entry(5), "batch 5")
      val requests = requestsOf((6 to 12).foreach { number =>
        assert(!files.exists(entry(number)))
        files.add(entry(number), s"batch $number")
        assert(files.exists(entry(number)) && files.text(entry(number - 1)) == s"batch ${number - 1}")
      })
      assert(requests == Map(Put -> 7), log)
      assert(newManager.text(entry(12)) == "batch 12")
    }
  }

  test("whether the store refuses the second of two writers is tried once, and nothing is left of it") {
    val files = newManager
    files.add(new Path(logs.head, "5"), "ours")
    assert(requestsOf(files.exists(new Path(logs.head, "6"))).isEmpty)
    assert(ObjectStore.keys("").toSeq.map(_.stripPrefix("checkpoint/")) == Seq("offsets/5"))
  }

  test("a store that ignores the condition of a create is asked for each entry") {
    ObjectStoreFileManager.refusing.here.clear()
    try
      ObjectStore.behaving(Behaviour(exclusive = false)) {
        val files = newManager
        files.add(new Path(logs.head, "5"), "ours")
        newManager.add(new Path(logs.head, "6"), "another's")
        assert(files.exists(new Path(logs.head, "6")))
        assert(requestsOf(assert(!files.exists(new Path(logs.head, "7")))) == Map(Head -> 1))
        assert(ObjectStore.keys("").forall(!_.endsWith(".tmp")))
      }
    finally ObjectStoreFileManager.refusing.here.clear()
  }

  test("only the next entry is known not to be there") {
    val files = newManager
    val log = logs.head
    newManager.add(new Path(log, "3"), "another's")
    newManager.add(new Path(log, "7"), "another's")
    files.add(new Path(log, "5"), "ours")
    assert(files.exists(new Path(log, "3")) && files.exists(new Path(log, "7")))
    assert(requestsOf(assert(!files.exists(new Path(log, "8")))) == Map(Head -> 1))
    assert(requestsOf(assert(!files.exists(new Path(logs(1), "6")))) == Map(Head -> 1), "another log")
  }

  test("a next entry that another writer has made is refused when it is closed, and is the other's") {
    val files = newManager
    val next = new Path(logs.head, "6")
    files.add(new Path(logs.head, "5"), "ours")
    newManager.add(next, "another's")
    assert(!files.exists(next))
    intercept[FileAlreadyExistsException](files.add(next, "ours"))
    assert(files.text(next) == "another's" && files.exists(next))
  }

  test("an entry that is deleted or replaced is read from the store, and so is an entry of a failed write") {
    val files = newManager
    val (deleted, replaced, failed) =
      (new Path(logs.head, "5"), new Path(logs.head, "6"), new Path(logs.head, "7"))
    Seq(deleted, replaced).foreach(files.add(_, "first"))
    files.delete(deleted)
    assert(!files.exists(deleted) && Try(files.open(deleted)).isFailure)
    files.add(replaced, "second", overwrite = true)
    assert(files.text(replaced) == "second")
    newManager.delete(replaced)
    assert(!files.exists(replaced), "the manager doesn't keep what replaced it")
    val out = files.createAtomic(failed, overwriteIfPossible = false)
    out.write(1)
    out.cancel()
    assert(!files.exists(failed) && Try(files.open(failed)).isFailure)
  }

  test("a purge of old entries leaves what is known of the newest one; a log that is deleted is forgotten") {
    val files = newManager
    val log = logs.head
    (5 to 7).foreach(number => files.add(new Path(log, s"$number"), "text"))
    files.delete(new Path(log, "5"))
    assert(requestsOf(assert(!files.exists(new Path(log, "8")))).isEmpty && !files.exists(new Path(log, "5")))
    files.delete(log)
    assert(!files.exists(new Path(log, "7")) && Try(files.open(new Path(log, "7"))).isFailure)
    assert(requestsOf(files.exists(new Path(log, "8"))) == Map(Head -> 1))
  }

  test("what is kept is bounded, and every entry is read as it was written", Slow) {
    val files = newManager
    val random = new Random(1)
    val lengths = Seq(1 << 20, 0, 5 << 20, 1, 4 << 20, 3 << 20, 1 << 20, 1, 300)
    val texts = lengths.map(random.alphanumeric.take(_).mkString)
    def entry(number: Int) = new Path(logs(2), s"$number")
    texts.zipWithIndex.foreach { case (text, i) => files.add(entry(i), text) }
    val known = texts.indices.filter { i =>
      requestsOf(assert(files.text(entry(i)) == texts(i))).isEmpty
    }
    assert(known == Seq(6, 7, 8))
    assert(
      requestsOf(assert(!files.exists(entry(9)))).isEmpty,
      "an entry too large to keep is the newest, too"
    )
  }

  test("bytes in memory are read, skipped and sought as those of a file") {
    val random = new Random(2)
    val content = random.nextBytes(1000)
    val file = Files.write(new File(directory, "file").toPath, content)
    val local = FileSystem.getLocal(new Configuration).getRawFileSystem
    def answers(in: FSDataInputStream, seed: Int): Seq[Any] = {
      val steps = new Random(seed)
      Seq.fill(200) {
        val into = new Array[Byte](1 + steps.nextInt(40))
        val at = steps.nextInt(1100).toLong
        steps.nextInt(6) match {
          case 0 => in.read()
          case 1 => (in.read(into), into.toSeq)
          case 2 => (in.read(at, into, 0, into.length), into.toSeq)
          case 3 => (Try(in.readFully(at, into)).isSuccess && at + into.length <= 1000, at)
          case 4 => (Try(in.seek(Math.min(at, 1000))).isSuccess, in.getPos)
          case 5 => in.getPos
        }
      }
    }
    (1 to 50).foreach { seed =>
      val (memory, disk) = (BytesInput.open(content), local.open(new Path(file.toUri)))
      try
        assert(answers(memory, seed).zip(answers(disk, seed)).forall { case (a, b) => a == b }, s"seed $seed")
      finally disk.close()
    }
    intercept[EOFException](BytesInput.open(content).seek(1001))
    intercept[EOFException](BytesInput.open(content).seek(-1))
  }

  test("a copy of what is written ends when it is too much, and nothing is missing in the file") {
    val out = new ByteArrayOutputStream
    val copied = new CopiedOutput(out, most = 3)
    copied.write(Array[Byte](1, 2))
    copied.write(3)
    assert(copied.content.exists(_.sameElements(Array[Byte](1, 2, 3))))
    copied.write(4)
    copied.write(Array[Byte](5))
    assert(copied.content.isEmpty && out.toByteArray.sameElements(Array[Byte](1, 2, 3, 4, 5)))
  }
}
