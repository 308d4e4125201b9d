package io.tailrace.state

import java.io.{ByteArrayOutputStream, File}
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.TailraceStateException
import io.tailrace.testkit.{Damage, RunFixture, TestRow}

final class WrittenFileSuite extends AnyFunSuite with RunFixture {

  /** A finished run of several pages, closed. */
  private def run(): File = {
    val file = new File(directory, "a.run")
    Files.deleteIfExists(file.toPath)
    val writer = new RunWriter(file)
    try {
      writer.begin(StoreKind.RightKeySorted, 0)
      (0L until 200L).foreach { i =>
        val row = TestRow(TestRow.key(f"k$i%06d"), i, i, Vector.tabulate(680)(at => (at * i).toByte))
        writer.append(row.layout, TestRow.At)
      }
      writer.end()
      writer.finish()
    } finally writer.close()
    file
  }

  private def reasonOf(body: => Any): String = {
    val error = intercept[TailraceStateException](body)
    assert(error.getCondition == "TAILRACE_STATE_LOCAL_FILE")
    error.getMessageParameters.get("reason")
  }

  test("a run that is as it was written is copied as a whole") {
    val file = run()
    val copy = new ByteArrayOutputStream
    val written = WrittenFile.ofRun(file)
    written.copyTo(copy)
    assert(copy.toByteArray.toSeq == Files.readAllBytes(file.toPath).toSeq && written.length == copy.size)
  }

  private val damages: Seq[(String, File => Unit)] = Seq(
    "flipped in its first block" -> (Damage.flipBit(_, 100)),
    "flipped in its middle" -> (Damage.flipMiddle(_)),
    "cut" -> (file => Damage.truncate(file, file.length / 2)),
    "emptied" -> (Damage.truncate(_, 0))
  )

  for ((name, damage) <- damages)
    test(s"a run that is $name before it has a checksum doesn't get into the checkpoint") {
      val file = run()
      damage(file)
      assert(reasonOf(WrittenFile.ofRun(file)).startsWith("a block can't be read"))
    }

  test("a run that is gone is named") {
    val file = run()
    assert(file.delete())
    assert(reasonOf(WrittenFile.ofRun(file)) == "it is gone")
  }
}
