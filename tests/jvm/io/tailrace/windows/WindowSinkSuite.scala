package io.tailrace.windows

import java.io.File

import org.apache.spark.sql.tailrace.MemoryStream

import io.tailrace.testkit.SparkSuite

/** The format of `write_windows` in the hands of a user. */
final class WindowSinkSuite extends SparkSuite {
  import spark.implicits._

  private val format = "tailrace-windows"

  test("the format used by itself is refused in start(), with each option that a user may try") {
    withDirectory { directory =>
      val out = new File(directory, "out")
      Seq("none" -> "", "path" -> out.getPath, WindowSink.Folder -> out.toURI.toString).foreach { option =>
        checkRefused(
          "TAILRACE_OPTION_INVALID",
          "call" -> "tailrace.write_windows",
          "argument" -> "format",
          "value" -> format,
          "allowed" -> "left to write_windows: start the writer that it returns"
        ) {
          MemoryStream[Int](spark)
            .toDF()
            .writeStream
            .format(format)
            .option(option._1, option._2)
            .option("checkpointLocation", new File(directory, "checkpoint").getPath)
            .start()
        }
      }
      assert(spark.streams.active.isEmpty && !out.exists)
    }
  }
}
