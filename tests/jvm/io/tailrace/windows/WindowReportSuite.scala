package io.tailrace.windows

import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.checkpoint.Checksum
import io.tailrace.common.TailraceStateException

final class WindowReportSuite extends AnyFunSuite {
  private val report = WindowReport(
    start = 1767268800000000L,
    end = 1767272400000000L,
    rows = 5,
    expected = 3,
    passed = 1,
    missing = Seq(MissingHost("logs", "a \"b\"", None), MissingHost("logs", "c", Some(1767272399500000L))),
    completeness = "0.999",
    low = 1767272400000001L,
    closedAt = 1767272500000000L,
    sources =
      Seq(SourcePart("logs", "0.999", 3, 1, Some("e3b0c44298fc1c14")), SourcePart("others", "1", 0, 0, None))
  )

  test("a report is read back, and other files are no reports") {
    assert(WindowReport.decode(WindowReport.encode(report)).contains(report))
    Seq("", "[]", "{", "{\"format\":3}", "{\"format\":2}", "{\"format\":1}", "null").foreach(t =>
      assert(WindowReport.decode(t).isEmpty, t)
    )
  }

  test("times before 1678 and after 2262, to the ends of what a column can have") {
    Seq(Long.MinValue + 1, -62135596800000000L, 253402300799999999L, Long.MaxValue).foreach { time =>
      val odd = report.copy(
        start = -62135596800000000L,
        end = 253402300799999999L,
        missing = Seq(MissingHost("logs", "a", Some(time))),
        low = time
      )
      assert(WindowReport.decode(WindowReport.encode(odd)).contains(odd), time)
      assert(Math.signum(odd.missing.head.lagSeconds(odd.end).get) == Math.signum(odd.end - time.toDouble))
    }
  }

  test("a report has the layout of its description") {
    assert(
      WindowReport.encode(report) == "{\"format\":2,\"window_start\":\"2026-01-01T12:00:00Z\"," +
        "\"window_end\":\"2026-01-01T13:00:00Z\",\"rows\":5,\"expected\":3,\"passed\":1,\"missing\":[" +
        "{\"source\":\"logs\",\"host\":\"a \\\"b\\\"\",\"progress\":null}," +
        "{\"source\":\"logs\",\"host\":\"c\",\"progress\":\"2026-01-01T12:59:59.500Z\"," +
        "\"lag_seconds\":0.5}]," +
        "\"completeness\":\"0.999\",\"low_watermark\":\"2026-01-01T13:00:00.000001Z\"," +
        "\"closed_at\":\"2026-01-01T13:01:40Z\",\"sources\":[" +
        "{\"source\":\"logs\",\"completeness\":\"0.999\",\"expected\":3,\"passed\":1,\"roster_version\":" +
        "\"e3b0c44298fc1c14\"}," +
        "{\"source\":\"others\",\"completeness\":\"1\",\"expected\":0,\"passed\":0," +
        "\"roster_version\":null}]}\n"
    )
  }

  test("a report of format 1 is read: it has no versions of rosters") {
    val old = WindowReport
      .encode(report)
      .replace("\"format\":2", "\"format\":1")
      .replaceAll(",\"roster_version\":(null|\"\\w+\")", "")
    assert(!old.contains("roster"))
    val without = report.copy(sources = report.sources.map(_.copy(rosterVersion = None)))
    assert(WindowReport.decode(old).contains(without))
  }

  test("the files of a folder are read back; damage and another format are told") {
    val file = BatchFile(
      7,
      "abc",
      "7-x",
      Seq(
        LandedFile("1/p", "w/p", 10, 2, Some(1), late = true),
        LandedFile("p", "_untimed/p", 3, 1, None, late = false)
      ),
      1,
      Seq(WindowRows(5, 6)),
      Nil,
      Some(3)
    )
    val path = new Path("/x/f")
    val bytes = LandingFile.encode(file, "f")
    assert(LandingFile.decode[BatchFile](bytes, path) == file)
    val closed = ClosedFile(9, Seq(ClosedWindow(1, WindowReport.encode(report))))
    assert(LandingFile.decode[ClosedFile](LandingFile.encode(closed, "f"), path) == closed)
    def condition(bytes: Array[Byte], at: Path = path) =
      intercept[TailraceStateException](LandingFile.decode[BatchFile](bytes, at)).getCondition
    assert(condition(bytes, new Path("/x/g")) == "TAILRACE_STATE_FILE_CORRUPT", "another file's bytes")
    bytes.indices.filter(i => i > 18 && i < bytes.length - 1).foreach { i =>
      assert(condition(bytes.updated(i, (bytes(i) ^ 1).toByte)) == "TAILRACE_STATE_FILE_CORRUPT", i)
    }
    assert(condition(bytes.take(40)) == "TAILRACE_STATE_FILE_CORRUPT")
    assert(condition(Array()) == "TAILRACE_STATE_FILE_CORRUPT")
    assert(
      condition(new String(bytes).replace("windows 2", "windows 3").getBytes) ==
        "TAILRACE_STATE_FORMAT_UNSUPPORTED"
    )
  }

  test("format 1, whose files have no names in them, is read") {
    val lines = "tailrace-windows 1\n{\"queryId\":\"q\",\"width\":10,\"offset\":0,\"into\":\"w\"}\n"
    val bytes = s"$lines${Checksum.hex(lines)}\n".getBytes
    assert(LandingFile.decode[FolderFile](bytes, new Path("/x/folder")) == FolderFile("q", 10, 0, "w", None))
    val batch =
      "tailrace-windows 1\n{\"batch\":7,\"offsets\":\"o\",\"staging\":\"s\",\"files\":[],\"untimed\":0," +
        "\"open\":[{\"start\":5,\"rows\":6}],\"late\":[]}\n"
    val read =
      LandingFile.decode[BatchFile](s"$batch${Checksum.hex(batch)}\n".getBytes, new Path("/x/7.batch"))
    assert(read == BatchFile(7, "o", "s", Nil, 0, Seq(WindowRows(5, 6)), Nil, None))
  }
}
