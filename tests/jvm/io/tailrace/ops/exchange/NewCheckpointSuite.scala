package io.tailrace.ops.exchange

import java.io.File
import java.nio.file.Files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}
import io.tailrace.ops.rewrite.NewCheckpoint
import io.tailrace.testkit.TempDirectory

/** Directories that one command alone makes, also where another one does so or has died. */
final class NewCheckpointSuite extends AnyFunSuite {
  private val conf = new Configuration

  private def checkpoint(d: File): NewCheckpoint = new NewCheckpoint(new File(d, "new").getPath, conf)

  private def made(of: NewCheckpoint, text: String): Path = {
    val directory = new File(of.work.toUri.getPath, "checkpoint")
    new File(directory, "state").mkdirs()
    Seq("metadata", "state/0").foreach(name => Files.writeString(new File(directory, name).toPath, text))
    new Path(directory.getPath)
  }

  private def texts(d: File): Seq[String] =
    Seq("metadata", "state/0").map(name => Files.readString(new File(d, s"new/$name").toPath))

  private def withDirectory(body: File => Unit): Unit = {
    val d = Files.createTempDirectory("tailrace-new-checkpoint")
    try body(d.toFile)
    finally TempDirectory.delete(d)
  }

  test("of two at once one is whole, and nothing is left of the other") {
    withDirectory { d =>
      val (first, second) = (checkpoint(d), checkpoint(d))
      intercept[Exception](first.make {
        val directory = made(first, "first")
        second.make(made(second, "second"))
        directory
      }) match {
        case _: TailraceAnalysisException | _: TailraceStateException => ()
        case other => throw other
      }
      assert(texts(d) == Seq("second", "second"))
      assert(d.list.toSeq == Seq("new"))
    }
  }

  test("what one has left that was killed is deleted, and no directory of the user's") {
    withDirectory { d =>
      val dead = checkpoint(d)
      made(dead, "dead"): Unit
      // As if it had died between two of the moves.
      Files.createDirectories(new File(d, "new/state").toPath): Unit
      Files.writeString(new File(d, "new/state/0").toPath, "dead")
      Files.writeString(new File(d, "new/metadata").toPath, NewCheckpoint.UnfinishedText)
      val own = new File(d, "new-import-0123abcd")
      new File(own, "data").mkdirs()
      val next = checkpoint(d)
      next.make(made(next, "whole"))
      assert(texts(d) == Seq("whole", "whole"))
      assert(d.list.toSet == Set("new", own.getName))
      assert(
        intercept[TailraceAnalysisException](
          next.checkFree()
        ).getCondition == "TAILRACE_STATE_EXCHANGE_EXISTS"
      )
    }
  }

  test("an export has its directory for itself") {
    withDirectory { d =>
      val path = new Path(d.getPath, "export")
      def directory = new ExportDirectory(path, conf)
      val refused = intercept[TailraceAnalysisException] {
        directory.fill {
          intercept[TailraceAnalysisException](directory.fill(()))
          new ExportDirectory(path, conf).checkFree()
        }
      }
      assert(refused.getCondition == "TAILRACE_STATE_EXCHANGE_EXISTS")
      // It has failed, and what it has written is gone.
      assert(d.list.isEmpty)
      assert(directory.fill(7) == 7)
      assert(new File(d, "export").list.forall(_.startsWith(".")))
    }
  }
}
