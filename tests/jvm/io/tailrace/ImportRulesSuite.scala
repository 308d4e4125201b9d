package io.tailrace

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** Which package may use which: api -> plan -> join -> state -> common, inspect -> join, plan -> replay, landing, recursion, sync -> progress -> state,
  * never back, and Spark's private parts only from `org.apache.spark.sql.tailrace`, which in turn knows nothing of ours. Reads the sources, as a compiler plugin would.
  */
final class ImportRulesSuite extends AnyFunSuite {
  private val root = new File("jvm/src/main/scala")

  private case class Source(path: String, lines: Seq[String]) {
    val packageName: String = lines.collectFirst { case s"package $name" => name.trim }.get

    /** Code without comments and texts. */
    lazy val code: String = "(?s)/\\*.*?\\*/".r
      .replaceAllIn(lines.mkString("\n"), "")
      .replaceAll("//[^\n]*", "")
      .replaceAll("\"[^\"\n]*\"", "\"\"")

    /** Packages and classes of ours that the code names, by an import or in full. */
    lazy val ours: Set[String] =
      "(?m)(?<!package )\\bio\\.tailrace\\.(\\w+)".r.findAllMatchIn(code).map(_.group(1)).toSet

    def usesSpark: Boolean = code.contains("org.apache.spark")
  }

  private lazy val sources: Seq[Source] = {
    val files = Files.walk(root.toPath)
    try
      files
        .iterator()
        .asScala
        .filter(_.toString.endsWith(".scala"))
        .map(p => Source(root.toPath.relativize(p).toString, Files.readAllLines(p).asScala.toSeq))
        .toVector
    finally files.close()
  }

  private def in(packageName: String): Seq[Source] = {
    val found = sources.filter(_.packageName == packageName)
    assert(found.nonEmpty, packageName)
    found
  }

  private val layers = Seq("common", "state", "join", "plan", "api")

  test("each file stands in the directory of its package") {
    sources.foreach { s =>
      assert(s.path.startsWith(s.packageName.replace('.', '/') + "/"), s.path)
    }
  }

  test("no package but the known ones") {
    val known =
      (layers ++ Seq("inspect", "landing", "progress", "recursion", "replay", "sync"))
        .map("io.tailrace." + _)
        .toSet + "io.tailrace" + "org.apache.spark.sql.tailrace"
    assert(sources.map(_.packageName).toSet == known)
  }

  // The capabilities stand side by side, below plan. Progress is what the others tell of themselves to.
  private def below(i: Int): Seq[String] =
    layers.take(i) ++ (i - layers.indexOf("join") match {
      case 0 => Seq("progress")
      case above if above > 0 => Seq("replay", "progress", "landing", "recursion", "sync")
      case _ => Nil
    })

  layers.zipWithIndex.foreach { case (layer, i) =>
    test(s"$layer uses ${if (i == 0) "no other package" else below(i).mkString(", ") + " only"}") {
      in(s"io.tailrace.$layer").foreach { s =>
        assert((s.ours -- below(i) - layer).isEmpty, s.path)
      }
    }
  }

  test("replay uses state, common only") {
    in("io.tailrace.replay").foreach(s =>
      assert((s.ours -- Seq("common", "state", "replay")).isEmpty, s.path)
    )
  }

  test("progress uses state, common only") {
    in("io.tailrace.progress").foreach(s =>
      assert((s.ours -- Seq("common", "state", "progress")).isEmpty, s.path)
    )
  }

  test("landing uses progress, state, common only") {
    in("io.tailrace.landing").foreach(s =>
      assert((s.ours -- Seq("common", "state", "progress", "landing")).isEmpty, s.path)
    )
  }

  test("recursion uses progress, state, common only") {
    in("io.tailrace.recursion").foreach(s =>
      assert((s.ours -- Seq("common", "state", "progress", "recursion")).isEmpty, s.path)
    )
  }

  test("sync uses join, progress, state, common only") {
    in("io.tailrace.sync").foreach(s =>
      assert((s.ours -- Seq("common", "state", "join", "progress", "sync")).isEmpty, s.path)
    )
  }

  test("inspect uses join, sync, state, common only, and nothing uses it") {
    in("io.tailrace.inspect").foreach { s =>
      assert((s.ours -- Seq("common", "state", "join", "sync", "inspect")).isEmpty, s.path)
    }
    sources.filter(_.packageName != "io.tailrace.inspect").foreach(s => assert(!s.ours("inspect"), s.path))
  }

  test("the extension uses plan only") {
    in("io.tailrace").foreach(s => assert((s.ours - "plan").isEmpty, s.path))
  }

  test("the bridge into Spark uses nothing of ours") {
    in("org.apache.spark.sql.tailrace").foreach(s => assert(s.ours.isEmpty, s.path))
  }

  test("pure files use no Spark") {
    val pure = Seq(
      "common/OrderedBytes",
      "join/JoinSettings",
      "join/JoinWindow",
      "join/MatchPolicy",
      "landing/LandingFile",
      "landing/OpenWindows",
      "landing/WindowReport",
      "landing/Windows",
      "progress/CheckedFile",
      "progress/Completeness",
      "progress/HostEntries",
      "progress/HostTable",
      "progress/ProgressFile",
      "progress/Silence",
      "progress/Smallest",
      "progress/SourceProgress",
      "progress/WatermarkStamp",
      "recursion/FeedbackFile",
      "recursion/FeedbackName",
      "recursion/FeedbackSplits",
      "recursion/HeldWatermark",
      "recursion/HopCounts",
      "recursion/RecursionSettings",
      "recursion/RowJudge",
      "replay/MarkFile",
      "replay/MarkTable",
      "replay/ProducerIds",
      "replay/RecordMetadata",
      "sync/CarriedRuns",
      "sync/RightIndex",
      "sync/SyncRules",
      "sync/SyncSettings",
      "sync/SyncTimes",
      "state/RunKey",
      "state/StoreKind",
      "sync/PartitionCondition",
      "sync/PartitionReading",
      "sync/SidePartitions",
      "sync/SourcePartition",
      "sync/SyncFile",
      "sync/SyncPartitions"
    )
    pure.foreach { name =>
      val source = sources.find(_.path == s"io/tailrace/$name.scala").getOrElse(fail(s"$name is gone"))
      assert(!source.usesSpark, source.path)
    }
  }

  test("imports at the head of a file begin at the root") {
    sources.foreach { s =>
      s.lines.filter(_.startsWith("import ")).foreach { line =>
        val rooted =
          Seq("java.", "javax.", "sun.reflect.", "scala.", "org.", "com.", "io.tailrace.")
            .exists(r => line.startsWith(s"import $r"))
        assert(rooted, s"${s.path}: $line")
      }
    }
  }
}
