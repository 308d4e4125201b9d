package io.tailrace.checkpoint

import java.io.{File, IOException}
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, LocalFileSystem, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager
}
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.{CheckpointFiles, Manifest}
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

  test("a store whose streams can't be aborted gets Spark's own manager") {
    val whole = conf
    whole.setBoolean(ObjectStoreFileSystem.AbortableKey, false)
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

  test("a partition's version is two PUTs and no other request") {
    val local = new File(directory, "run")
    Files.write(local.toPath, new Array[Byte](1000))
    val files = new CheckpointFiles(new Path(root, "state/0/0"), conf)
    def commit(): Assertion = {
      val run = files.upload(local, CheckpointFiles.runName(1))
      files.writeManifest(Manifest(1, 0, Seq(run)), None)
      succeed
    }
    assert(requestsOf(commit()) == Map(Put -> 2))
  }
}
