package io.tailrace.plan

import java.io.{ByteArrayInputStream, File}
import java.nio.file.{Files, Path => LocalPath}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.checkpoint.CheckedText
import io.tailrace.common.TailraceStateException
import io.tailrace.join.JoinCheckpoint
import io.tailrace.recursion.{FeedbackFile, FeedbackLog}
import io.tailrace.replay.{MarkFile, MarkTable, TopicIds}
import io.tailrace.state.Manifest
import io.tailrace.sync.SyncFile
import io.tailrace.testkit.{FileKind, TempDirectory}
import io.tailrace.watermark.{HostTable, ProgressFile}
import io.tailrace.windows.{BatchFile, ClosedFile, FolderFile, LandingFile}

/** Each kind of file of `jvm/docs/formats.md` is refused with a named error if a later release has written
  * it. The files are those of the golden checkpoints.
  */
final class FutureFormatsSuite extends AnyFunSuite with TempDirectory {

  /** The decoder of a file, by the end of its name. It checks the format before anything else. */
  private val readers: Map[String, LocalPath => Any] = {
    def bytes(file: LocalPath) = Files.readAllBytes(file)
    Map(
      "tailrace-join.json" -> { f =>
        JoinCheckpoint.read(new Path(f.getParent.toString), new Configuration, 1)
      },
      ".manifest" -> (f => Manifest.decode(bytes(f), "", new Path(f.toString))),
      ".marks" -> (f => MarkFile.decode(bytes(f), f.toString, "", new MarkTable(0))(_ => ())),
      "tailrace-replay/<name>/<batch>.snapshot" -> { f =>
        MarkFile.decode(bytes(f), f.toString, "", new MarkTable(0))(_ => ())
      },
      "tailrace-watermark/<name>/<batch>.snapshot" -> (f =>
        ProgressFile.decode(bytes(f), f.toString, "", new HostTable)
      ),
      ".delta" -> (f => ProgressFile.decode(bytes(f), f.toString, "", new HostTable)),
      ".progress" -> (f => SyncFile.decode(bytes(f), f.toString, "")),
      ".fed" -> { f =>
        val place = FeedbackLog.place(new Path(f.toString))
        new FeedbackFile.Reader(new ByteArrayInputStream(bytes(f)), f.toString, place, "").next()
      },
      "_tailrace/folder" -> (f => LandingFile.decode[FolderFile](bytes(f), new Path(f.toString))),
      ".batch" -> (f => LandingFile.decode[BatchFile](bytes(f), new Path(f.toString))),
      ".closed" -> (f => LandingFile.decode[ClosedFile](bytes(f), new Path(f.toString)))
    )
  }

  /** The manifest has the format of a run, too. The other files aren't ours. */
  private val withoutFormat = Seq(".run", "_metadata/schema", ".none", "...")

  private def refused(file: String)(read: => Any): Unit = {
    val error = intercept[TailraceStateException](read)
    assert(error.getCondition == "TAILRACE_STATE_FORMAT_UNSUPPORTED", file)
    val told = error.getMessageParameters
    assert(told.get("file").endsWith(file) && told.get("format") == Damages.Later.toString)
    ()
  }

  test("each kind of file that a query reads again is refused in a format of the future") {
    val kinds = FileKind.all.filter(kind => kind.isOurs && !withoutFormat.exists(kind.path.endsWith))
    val missing = kinds.filterNot { kind =>
      val reader = readers.collectFirst { case (end, read) if kind.path.endsWith(end) => read }
      val files =
        golden.filter(f => kind.matches(directory.toPath.relativize(f).toString.dropWhile(_ != '/').drop(1)))
      files.take(2).foreach { file =>
        Files.write(file, Damages.later(Files.readAllBytes(file)))
        refused(file.toString)(reader.getOrElse(fail(s"${kind.path} has no reader"))(file))
      }
      files.nonEmpty
    }
    assert(missing.isEmpty, "golden checkpoints have no such file")
  }

  test("the topics of a producer are refused in a format of the future") {
    val text = new CheckedText("tailrace-producer-topics", "", oldest = 1, newest = 1)
    val topics = text.encode("""{"5":{"t":"id"}}""")
    assert(TopicIds.decode(topics, "topics") == Map(("5", "t") -> "id"))
    refused("topics")(TopicIds.decode(Damages.later(topics), "topics"))
  }

  private lazy val golden: Seq[LocalPath] = {
    GoldenCheckpoints.archives.zipWithIndex.foreach { case ((_, archive), i) =>
      GoldenCheckpoints.unpack(archive, new File(directory, i.toString)): Unit
    }
    DamagedCheckpoint.files(directory.toPath)
  }
}
