package io.tailrace.state

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => LocalPath}
import java.util.zip.CRC32C

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkThrowable
import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

final class ManifestSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val place = "0/3"
  private val path = new Path(s"somewhere/$place/7.1-a.manifest")
  private val file = path.toString

  private def encode(manifest: Manifest) = Manifest.encode(manifest, place, path.getName)

  private val sections: Gen[Section] = for {
    kind <- Gen.oneOf(StoreKind.all)
    bucket <- Arbitrary.arbitrary[Long]
    rows <- Gen.choose(1L, Long.MaxValue)
    min <- Arbitrary.arbitrary[Long]
    max <- Arbitrary.arbitrary[Long]
    expired <- Gen.choose(0L, 5L)
    schema <- Gen.choose(0, 3)
  } yield Section(kind.name, bucket, rows, min, max, rows, expired, schema)

  private val runs: Gen[Run] = for {
    version <- Gen.choose(1L, 1000L)
    crc <- Gen.choose(0L, 0xffffffffL)
    some <- Gen.listOf(sections)
  } yield Run(StateFileNames.run(version), crc + 1, crc, some)

  private val balances: Gen[BalanceCounts] = for {
    labels <- Gen.nonEmptyListOf(Arbitrary.arbitrary[String])
    counts = Gen.listOfN(labels.size, Gen.choose(0L, Long.MaxValue))
    steps <- Gen.listOf(
      Gen.zip(Arbitrary.arbitrary[Long], counts, Gen.choose(0L, Long.MaxValue)).map(BalanceStep.tupled)
    )
  } yield BalanceCounts(labels, steps)

  private val manifests: Gen[Manifest] = for {
    version <- Gen.choose(0L, Long.MaxValue)
    through <- Arbitrary.arbitrary[Long]
    some <- Gen.listOf(runs)
    right <- Gen.oneOf(Gen.const(Long.MinValue), Arbitrary.arbitrary[Long])
    late <- Gen.listOf(Gen.zip(Gen.choose(1L, 1000L), Arbitrary.arbitrary[Long]).map(LateRows.tupled))
    amends <- Gen.option(Arbitrary.arbitrary[Long])
    balance <- Gen.option(balances)
  } yield Manifest(version, through, some, right, late, amends, balance)

  private val golden = Manifest(
    7,
    -5,
    Seq(
      Run(
        "7-a.run",
        1234,
        4294967295L,
        Seq(
          Section("left-time-sorted", 0, 3, 10, 20, 300, 1),
          Section("right-key-sorted", -1, 2, -20, -10, 200, schema = 2)
        )
      ),
      Run("6_x.manifest#1", 77, 78, Seq(Section("left-time-sorted", 0, 1, 5, 5, 50)), offset = 901),
      Run("7.1-a.manifest#0", 1000, 8, Seq(Section("left-time-sorted", 0, 1, 6, 6, 60)), offset = 876),
      Run("7.1-a.manifest#2", 9, 9, Seq(Section("left-time-sorted", 0, 1, 7, 7, 70)), offset = 1876)
    )
  )

  private def goldenBytes: Array[Byte] = Files.readAllBytes(LocalPath.of("tests/golden/manifest-6.txt"))

  private def error(bytes: Array[Byte]): SparkThrowable =
    intercept[Exception](Manifest.decode(bytes, place, path)) match {
      case e: SparkThrowable => e
      case e => throw e
    }

  private def assertCorrupt(bytes: Array[Byte]): Unit = {
    val e = error(bytes)
    assert(e.getCondition == "TAILRACE_STATE_FILE_CORRUPT")
    assert(e.getMessageParameters.get("file") == file)
  }

  private def withChecksum(body: String): Array[Byte] = {
    val crc = new CRC32C
    crc.update(body.getBytes(UTF_8))
    f"$body${crc.getValue}%08x%n".getBytes(UTF_8)
  }

  test("a manifest that is encoded is decoded") {
    forAll(manifests)(m => assert(Manifest.decode(encode(m), place, path) == m))
  }

  test("a manifest has the golden bytes, both ways") {
    assert(new String(encode(golden), UTF_8) == new String(goldenBytes, UTF_8))
    assert(Manifest.decode(goldenBytes, place, path) == golden)
  }

  test("a manifest of a synced join has the golden bytes, with one more field") {
    val synced = golden.copy(
      runs = Seq(Run("7-b.run", 5, 6, Seq(Section("held-right", 0, 3, 10, 20, 300, 1)))),
      rightExpiredThrough = 9
    )
    val text =
      """{"version":7,"expiredThrough":-5,"rightExpiredThrough":9,"runs":[{"name":"7-b.run","length":5,""" +
        """"crc32c":6,"sections":[{"store":"held-right","bucket":0,"rows":3,"minTime":10,"maxTime":20,""" +
        """"bytes":300,"expiredRows":1}],"level":0}]}"""
    assert(new String(encode(synced), UTF_8).split('\n')(1) == text)
    assert(Manifest.decode(encode(synced), place, path) == synced)
  }

  test("a manifest of a synced join that has marked left rows has format 7, and the golden bytes") {
    val section = Section("joined-left", 4, 3, 4, 4, 72)
    val marked = golden.copy(
      runs = golden.runs.take(1).map(run => run.copy(sections = run.sections :+ section)),
      rightExpiredThrough = 9
    )
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-7.txt"))
    assert(new String(encode(marked), UTF_8) == new String(bytes, UTF_8))
    assert(Manifest.decode(bytes, place, path) == marked)
  }

  test("a manifest of a label join that has noted matched right rows has format 8, and the golden bytes") {
    val section = Section("matched-right", 4, 3, 4, 4, 72)
    val noted =
      golden.copy(runs = golden.runs.take(1).map(run => run.copy(sections = run.sections :+ section)))
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-8-matched.txt"))
    assert(new String(encode(noted), UTF_8) == new String(bytes, UTF_8))
    assert(Manifest.decode(bytes, place, path) == noted)
  }

  test("a manifest of a label join that has taken late rows has the golden bytes, with one more field") {
    val late =
      golden.copy(runs = golden.runs.take(1).map(_.copy(sections = Nil)), lateRows = Seq(LateRows(6, 90)))
    val text =
      """{"version":7,"expiredThrough":-5,"lateRows":[{"version":6,"watermark":90}],"runs":[{"name":""" +
        """"7-a.run","length":1234,"crc32c":4294967295,"sections":[],"level":0}]}"""
    assert(new String(encode(late), UTF_8).split('\n')(1) == text)
    assert(Manifest.decode(encode(late), place, path) == late)
  }

  test("a manifest of a label join that amends rows has the golden bytes, with one more field") {
    val amends =
      golden.copy(runs = golden.runs.take(1).map(_.copy(sections = Nil)), amendsAfter = Some(-80))
    val text =
      """{"version":7,"expiredThrough":-5,"amendsAfter":-80,"runs":[{"name":""" +
        """"7-a.run","length":1234,"crc32c":4294967295,"sections":[],"level":0}]}"""
    assert(new String(encode(amends), UTF_8).split('\n')(1) == text)
    assert(Manifest.decode(encode(amends), place, path) == amends)
  }

  test("a manifest of examples whose negatives are sampled at a ratio has format 8, and the golden bytes") {
    val counts = BalanceCounts(
      Seq("click", "buy \"now\""),
      Seq(BalanceStep(-60, Seq(4, 0), 100), BalanceStep(0, Seq(1, 2), 9007199254740993L))
    )
    val balanced = golden.copy(runs = golden.runs.take(1), balance = Some(counts))
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-8.txt"))
    assert(new String(encode(balanced), UTF_8) == new String(bytes, UTF_8))
    assert(Manifest.decode(bytes, place, path) == balanced)
  }

  test("a manifest of format 5 is read, where no row is amended") {
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-5.txt"))
    assert(Manifest.decode(bytes, place, path) == golden)
  }

  test("a manifest of format 4 is read, where no late rows are taken") {
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-4.txt"))
    assert(Manifest.decode(bytes, place, path) == golden)
  }

  /** Of formats without schemas. */
  private val before = golden.copy(runs = golden.runs.map { run =>
    // The text is shorter by `,"schema":2`.
    val offset = if (run.name.startsWith("7.1-a")) run.offset - 11 else run.offset
    run.copy(sections = run.sections.map(_.copy(schema = 0)), offset = offset)
  })

  test("a manifest of format 3 is read, where all rows have one schema") {
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-3.txt"))
    assert(Manifest.decode(bytes, place, path) == before)
  }

  test("a manifest of format 2 is read, where each run has a file of its own") {
    val bytes = Files.readAllBytes(LocalPath.of("tests/golden/manifest-2.txt"))
    assert(Manifest.decode(bytes, place, path) == before.copy(runs = before.runs.take(1)))
  }

  test("inline runs follow the text one after the other, wherever the manifest names them") {
    forAll(manifests) { manifest =>
      val inline = Seq(5L, 6L).zipWithIndex.map { case (length, n) =>
        Run(StateFileNames.inline(path.getName, n), length, n.toLong, Nil)
      }
      val named = manifest.copy(runs = (inline.head +: manifest.runs) :+ inline.last)
      val text = encode(named)
      val read = Manifest.decode(text, place, path)
      assert(read.runs.head.offset == text.length && read.runs.last.offset == text.length + 5)
      assert(read == Manifest.placed(named, path.getName, text.length.toLong))
    }
  }

  test("the golden file's last line is the checksum of the lines above it") {
    val lines = new String(goldenBytes, UTF_8).split('\n')
    assert(withChecksum(s"${lines(0)}\n${lines(1)}\n").sameElements(goldenBytes))
  }

  test("any flipped bit is refused") {
    for (at <- goldenBytes.indices; bit <- 0 until 8) {
      val bytes = goldenBytes
      bytes(at) = (bytes(at) ^ (1 << bit)).toByte
      val e = error(bytes)
      // In the format's own digit it may look like another one: refused all the same.
      val expected = Set("TAILRACE_STATE_FILE_CORRUPT") ++
        (if (at == "tailrace-state ".length) Set("TAILRACE_STATE_FORMAT_UNSUPPORTED") else Set.empty)
      assert(expected(e.getCondition), s"byte $at, bit $bit")
      assert(e.getMessageParameters.get("file") == file)
    }
  }

  test("a truncated manifest is refused at every length") {
    // Without the newline at its very end nothing is missing.
    (0 until goldenBytes.length - 1).foreach(n => assertCorrupt(goldenBytes.take(n)))
  }

  test("a manifest with something after it is refused") {
    assertCorrupt(goldenBytes ++ "more".getBytes(UTF_8))
    assertCorrupt(goldenBytes ++ goldenBytes)
  }

  test("a file that isn't a manifest is refused") {
    assertCorrupt(Array.emptyByteArray)
    assertCorrupt("{}".getBytes(UTF_8))
    assertCorrupt(withChecksum("v1\n{}\n"))
    assertCorrupt(withChecksum("tailrace-state one\n{}\n"))
  }

  test("a manifest with the right checksum and the wrong content is refused") {
    assertCorrupt(withChecksum(s"tailrace-state 2 $place\n{}\n"))
    assertCorrupt(withChecksum(s"tailrace-state 2 $place\nnot json\n"))
  }

  test("a manifest of another partition, or of none, is refused, even if it names no run") {
    Seq(" 0/2", " 1/3", "").foreach { other =>
      val body = new String(encode(Manifest.empty), UTF_8).split('\n')(1)
      assert(
        Manifest.decode(withChecksum(s"tailrace-state 2 $place\n$body\n"), place, path) == Manifest.empty
      )
      assertCorrupt(withChecksum(s"tailrace-state 2$other\n$body\n"))
    }
  }

  Seq(9 -> "a newer format", 1 -> "the format before the first release").foreach { case (format, what) =>
    test(s"$what is refused by its number, whatever follows") {
      Seq("", "of another shape\n\n\n", "{}\n00000000\n").foreach { rest =>
        val e = error(s"tailrace-state $format\n$rest".getBytes(UTF_8))
        assert(e.getCondition == "TAILRACE_STATE_FORMAT_UNSUPPORTED")
        val found = e.getMessageParameters
        assert(found.get("file") == file)
        assert(found.get("format") == format.toString)
        assert(found.get("oldest") == "2" && found.get("newest") == Manifest.Format.toString)
      }
    }
  }

  test("a section knows its store") {
    assert(golden.runs.head.sections.map(_.kind) == Seq(StoreKind.LeftTimeSorted, StoreKind.RightKeySorted))
  }

  test("file names are those of the runs") {
    assert(golden.fileNames == Set("7-a.run", "6_x.manifest", "7.1-a.manifest"))
    assert(Manifest.empty.fileNames.isEmpty)
  }
}
