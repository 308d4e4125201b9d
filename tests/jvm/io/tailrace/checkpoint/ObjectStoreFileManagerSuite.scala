package io.tailrace.checkpoint

import java.io.{File, FileNotFoundException, IOException}
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, LocalFileSystem, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager
}
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.{CheckpointFiles, Manifest, Run, StateFileNames, WrittenFile}
import io.tailrace.testkit.ObjectStore._
import io.tailrace.testkit.{ObjectStore, ObjectStoreFileSystem, TempDirectory}

final class ObjectStoreFileManagerSuite extends AnyFunSuite with TempDirectory {
  private val root = new Path(s"${ObjectStoreFileSystem.Name}/checkpoint")
  private val file = new Path(root, "commits/7")
  private def conf = ObjectStoreFileSystem.configure(new Configuration)
  private def manager: CheckpointFileManager = TailraceFileManager.forPath(root, conf)

  override protected def beforeEach(): Unit = {
    super.beforeEach()
    ObjectStore.wipe("")
    ObjectStore.clear()
  }

  private def write(text: String, overwrite: Boolean, by: CheckpointFileManager = manager): Unit = {
    val out = by.createAtomic(file, overwrite)
    out.write(text.getBytes)
    out.close()
  }

  private def read: String = new String(manager.open(file).readAllBytes())

  /** All requests of `body`, as a bill has them. */
  private def requestsOf(body: => Any): Map[Method, Int] = {
    ObjectStore.clear()
    body
    ObjectStore.counts()
  }

  test("a file is one PUT, whether it is new or replaces one") {
    assert(requestsOf(write("a", overwrite = false)) == Map(Put -> 1))
    assert(requestsOf(write("b", overwrite = true)) == Map(Put -> 1))
    assert(read == "b")
  }

  test("whether an entry of a log is there is one HEAD; a directory of another name is found") {
    Seq("offsets/7", "commits/7", "sources/0/7").foreach { name =>
      val entry = new Path(root, name)
      assert(requestsOf(assert(!manager.exists(entry))) == Map(Head -> 1), name)
      manager.createAtomic(entry, overwriteIfPossible = false).close()
      assert(requestsOf(assert(manager.exists(entry))) == Map(Head -> 1), name)
      assert(manager.exists(entry.getParent), name)
    }
    manager.createAtomic(new Path(root, "state/0/7/1.manifest"), overwriteIfPossible = false).close()
    assert(manager.exists(new Path(root, "state/0/7")) && !manager.exists(new Path(root, "state/0/8")))
  }

  test("only one of two writers makes a new file, however late they notice each other") {
    val first = manager.createAtomic(file, overwriteIfPossible = false)
    val second = manager.createAtomic(file, overwriteIfPossible = false)
    Seq(first -> "a", second -> "b").foreach { case (out, text) => out.write(text.getBytes) }
    first.close()
    intercept[FileAlreadyExistsException](second.close())
    assert(read == "a")
  }

  test("a file that is cancelled doesn't appear, even if it is closed afterwards") {
    val out = manager.createAtomic(file, overwriteIfPossible = true)
    out.write("half".getBytes)
    out.cancel()
    out.close()
    assert(ObjectStore.keys("").isEmpty)
  }

  test("a PUT whose answer is lost has made the writer's own file") {
    ObjectStore.behaving(Behaviour(lostAnswer = 1))(write("a", overwrite = false))
    assert(read == "a")
  }

  test("a PUT whose answer is lost, of a file that another writer has made, is refused") {
    write("a", overwrite = false)
    intercept[FileAlreadyExistsException](write("b", overwrite = false))
    assert(read == "a")
  }

  test("a PUT that fails leaves nothing, and its error is the store's") {
    val e = intercept[IOException](
      ObjectStore.behaving(Behaviour(ratePrefix = 0))(write("a", overwrite = false))
    )
    assert(e.getMessage.contains("503") && ObjectStore.keys("").isEmpty)
  }

  test("a directory that was made is listed, empty, without a request for making it") {
    val directory = file.getParent
    intercept[FileNotFoundException](manager.list(directory))
    val files = manager
    assert(requestsOf(files.mkdirs(directory)).isEmpty)
    assert(files.list(directory).isEmpty)
    write("a", overwrite = false)
    assert(files.list(directory).map(_.getPath.getName).toSeq == Seq("7"))
  }

  test("a store whose streams can't be aborted gets Spark's own manager") {
    val whole = conf
    whole.set(ObjectStoreFileSystem.ClientKey, ObjectStoreFileSystem.Gcs)
    assert(TailraceFileManager.forPath(root, whole).isInstanceOf[FileContextBasedCheckpointFileManager])
  }

  test("a local file system of the user's own leaves the manager of an object store as it is") {
    val own = conf
    own.set("fs.file.impl", classOf[LocalFileSystem].getName)
    assert(TailraceFileManager.forPath(root, own).isInstanceOf[ObjectStoreFileManager])
  }

  test("Spark's manager takes more than ten requests for the same file") {
    val sparks = new FileContextBasedCheckpointFileManager(root, conf)
    sparks.mkdirs(file.getParent)
    val requests = requestsOf(write("a", overwrite = false, sparks))
    assert(requests.values.sum > 10 && requests(Copy) == 1)
  }

  Seq(ObjectStoreFileSystem.Abfs -> 15, ObjectStoreFileSystem.Gcs -> 25).foreach { case (client, most) =>
    test(s"$client: a file appears by a rename, in at most $most requests, and a second writer is refused") {
      val other = conf
      other.set(ObjectStoreFileSystem.ClientKey, client)
      val files = TailraceFileManager.forPath(root, other)
      files.mkdirs(file.getParent)
      val requests = requestsOf(write("a", overwrite = false, files))
      assert(requests.values.sum <= most && requests.keySet.intersect(Set(Rename, Copy)).size == 1, requests)
      intercept[FileAlreadyExistsException](write("b", overwrite = false, files))
      assert(new String(files.open(file).readAllBytes()) == "a")
      // The second one didn't cancel its temporary file.
      val names = files.list(file.getParent).map(_.getPath.getName).filterNot(_.startsWith("."))
      assert(names.toSeq == Seq("7"))
    }
  }

  private def local = Files.write(new File(directory, "run").toPath, new Array[Byte](1000)).toFile

  test("a partition's version is one PUT and no other request, but for a listing at the start") {
    val files = new CheckpointFiles(new Path(root, "state/0/0"), conf)
    def commit(version: Long, id: Option[String]): Assertion = {
      val file = files.newManifest(version, id)
      val run = Run(StateFileNames.inline(file, 0), 0, 0, Nil)
      assert(
        files
          .commit(file, Manifest(version, 0, Seq(run)), Map(run.name -> WrittenFile.of(local)))
          .runs
          .head
          .offset > 0
      )
    }
    assert(requestsOf(commit(1, Some("x"))) == Map(Put -> 1))
    assert(requestsOf(commit(1, None)) - ListPage - Head == Map(Put -> 1))
    (2L to 4L).foreach(version => assert(requestsOf(commit(version, None)) == Map(Put -> 1)))
  }

  test("purges take less than a request for 20 versions, and leave few old files") {
    val files = new CheckpointFiles(new Path(root, "state/0/0"), conf)
    var alive = Vector.empty[Run]
    def commit(version: Long): Unit = {
      val file = files.newManifest(version, None)
      val run = Run(StateFileNames.inline(file, 0), 0, 0, Nil)
      val manifest = Manifest(version, 0, alive :+ run)
      // A run is compacted, or its rows have left, after 40 versions.
      alive = files.commit(file, manifest, Map(run.name -> WrittenFile.of(local))).runs.toVector.takeRight(40)
    }
    (1L to 100L).foreach(commit)
    val requests = requestsOf((101L to 1300L).foreach { version =>
      commit(version)
      // A micro-batch each 10 seconds, and a purge each minute.
      if (version % 6 == 0) files.purge(100)
    })
    assert(requests(Put) == 1200 && (requests - Put).values.sum <= 1200 / 20, requests)
    assert(ObjectStore.keys("checkpoint/state/0/0/").size <= 100 + 40 + 32 + 6)
  }
}
