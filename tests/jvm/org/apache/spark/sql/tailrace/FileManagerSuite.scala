package org.apache.spark.sql.tailrace

import java.io.File
import java.nio.file.Files
import java.util.concurrent.{CountDownLatch, Executors}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.execution.streaming.CheckpointFileManagerTests
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileContextBasedCheckpointFileManager
}
import org.apache.spark.util.Utils

import io.tailrace.checkpoint.{LocalFileManager, TailraceFileManager}
import io.tailrace.testkit.CampaignSuite

/** Spark's own tests of a file manager, and tests of what ours adds. */
final class FileManagerSuite extends CheckpointFileManagerTests with CampaignSuite {
  private val conf = {
    val set = new Configuration
    set.set(TailraceFileManager.Key, classOf[TailraceFileManager].getName)
    set
  }

  override protected def withTempHadoopPath(body: Path => Unit): Unit = {
    val directory = Utils.createTempDir()
    try body(new Path(directory.toURI))
    finally Utils.deleteRecursively(directory)
  }

  override protected def checkLeakingCrcFiles(path: Path): Unit =
    assert(!new File(path.toUri).list.exists(_.endsWith(".crc")))

  override protected def createManager(path: Path): CheckpointFileManager =
    CheckpointFileManager.create(path, conf)

  private def names(path: Path): Set[String] = new File(path.toUri).list.toSet

  test("Spark makes this manager; on other file systems Spark's own does the work") {
    withTempHadoopPath { path =>
      assert(createManager(path).isInstanceOf[TailraceFileManager])
      assert(TailraceFileManager.forPath(path, new Configuration).isInstanceOf[LocalFileManager])
      val elsewhere = new Configuration
      elsewhere.set("fs.file.impl", classOf[org.apache.hadoop.fs.LocalFileSystem].getName)
      assert(TailraceFileManager.forPath(path, elsewhere).isInstanceOf[FileContextBasedCheckpointFileManager])
    }
  }

  test("a directory with nothing but a dead writer's file is empty: Spark refuses others before batch 0") {
    withTempHadoopPath { path =>
      assert(new File(new File(path.toUri), ".0.8e4f6f0a-1.tmp").createNewFile())
      assert(createManager(path).list(path).isEmpty)
      assert(new File(new File(path.toUri), "0").createNewFile())
      assert(createManager(path).list(path).length == 2)
    }
  }

  test("of two writers of a file that may not be replaced, one succeeds") {
    withTempHadoopPath { path =>
      val pool = Executors.newFixedThreadPool(2)
      try
        (1 to 200).foreach { i =>
          val start = new CountDownLatch(1)
          val target = new Path(path, i.toString)
          val wins = Seq(1, 2).map { writer =>
            pool.submit { () =>
              val out = createManager(path).createAtomic(target, overwriteIfPossible = false)
              out.writeInt(writer)
              start.await()
              try { out.close(); writer }
              catch { case _: FileAlreadyExistsException => out.cancel(); 0 }
            }
          }
          start.countDown()
          val winners = wins.map(_.get).filter(_ > 0)
          assert(winners.size == 1)
          val in = createManager(path).open(target)
          try assert(in.readInt() == winners.head)
          finally in.close()
        }
      finally pool.shutdown()
      assert(names(path) == (1 to 200).map(_.toString).toSet, "temporary files were left")
    }
  }

  test("a checkpoint moves from Spark's manager to this one and back, with its checksum files") {
    withTempHadoopPath { path =>
      val sparks = new FileContextBasedCheckpointFileManager(path, new Configuration)
      val file = new Path(path, "1")
      def write(manager: CheckpointFileManager, value: Int): Unit = {
        val out = manager.createAtomic(file, overwriteIfPossible = true)
        out.writeInt(value)
        out.close()
      }
      def read(manager: CheckpointFileManager): Int = {
        val in = manager.open(file)
        try in.readInt()
        finally in.close()
      }
      write(sparks, 1)
      // Hadoop's local file system writes one beside each file.
      Files.write(new File(new Path(path, ".1.crc").toUri).toPath, Array[Byte](99, 114, 99, 0, 0, 0, 2, 0))
      assert(createManager(path).list(path).map(_.getPath.getName).toSeq == Seq("1"))
      assert(read(createManager(path)) == 1)
      write(createManager(path), 2)
      assert(names(path) == Set("1"))
      assert(read(sparks) == 2)
      write(sparks, 3)
      assert(read(createManager(path)) == 3)
    }
  }

  test("a stream that was cancelled, before or after a failed close, leaves nothing") {
    withTempHadoopPath { path =>
      val manager = createManager(path)
      val first = manager.createAtomic(new Path(path, "a"), overwriteIfPossible = false)
      first.writeInt(1)
      first.cancel()
      assert(names(path).isEmpty)
      val second = manager.createAtomic(new Path(path, "a"), overwriteIfPossible = false)
      new File(new Path(path, "a").toUri).createNewFile()
      intercept[FileAlreadyExistsException](second.close())
      second.cancel()
      assert(names(path) == Set("a"))
    }
  }
}
