package io.tailrace

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.ScalaSources

/** The packages that each package may use. Imports go in one direction. The bridge
  * `org.apache.spark.sql.tailrace` has Spark's private parts, and uses nothing of ours. The suite reads the
  * sources.
  *
  * {{{
  *   connect                     calls of Spark Connect's clients, as api takes them
  *   api, the extension          all of them
  *   examples                    several labels on one label join, and their features
  *   ops.why  ops.rescale  ops.erase  ops.exchange  ops.backfill
  *                               offline tools, for stopped queries and for those that run: they explain missing
  *                               output, and write the state of a stopped query anew
  *   ops.inspect  ops.rewrite    what the tools share: the files that the capabilities keep, and a checkpoint that
  *                               takes the place of another
  *   label  sync  asof  replay  watermark  windows  tables  recursion
  *                               the capabilities: none uses another, but windows close by the watermark
  *   testing                     what users test their pipelines with
  *   monitor                     shows the numbers of queries, and keeps them
  *   join                        what all joins are made of
  *   plan                        rules over a whole query, and what they ask of nodes
  *   driver  state               what the driver keeps for a run; the engine, which knows no join
  *   explain                     why nothing is emitted: the facts, and their words, for `why`, warnings and Spark's UI
  *   checkpoint                  files that last
  *   common                      errors, settings, bytes
  * }}}
  */
final class ImportRulesSuite extends AnyFunSuite {
  private case class Source(path: String, lines: Seq[String]) {
    val packageName: String = lines.collectFirst { case s"package $name" => name.trim }.get +
      lines.collectFirst { case s"package object $name {" => s".$name" }.getOrElse("")

    /** Code without comments and texts. */
    lazy val code: String = "(?s)/\\*.*?\\*/".r
      .replaceAllIn(lines.mkString("\n"), "")
      .replaceAll("//[^\n]*", "")
      .replaceAll("\"[^\"\n]*\"", "\"\"")

    /** Packages and classes of ours that the code names, by an import or in full. */
    lazy val ours: Set[String] =
      "(?m)(?<!package )\\bio\\.tailrace\\.((?:ops\\.)?\\w+)".r.findAllMatchIn(code).map(_.group(1)).toSet

    def usesSpark: Boolean = code.contains("org.apache.spark")

    /** Packages of Spark that the code names: what comes before the first name in capitals. */
    lazy val sparks: Set[String] =
      "org\\.apache\\.spark((?:\\.[a-z]\\w*)*)(?:\\.\\{([^}]*)\\})?".r
        .findAllMatchIn(code)
        .flatMap { found =>
          val name = found.group(1).stripPrefix(".")
          val inBraces =
            Option(found.group(2)).toSeq.flatMap(_.split(',')).map(_.trim.takeWhile(_.isLetterOrDigit))
          val below = inBraces.filter(_.headOption.exists(_.isLower))
          below.map(b => if (name.isEmpty) b else s"$name.$b") ++
            Option.when(inBraces.isEmpty || below.size < inBraces.size)(name)
        }
        .toSet
  }

  private lazy val sources: Seq[Source] = ScalaSources.all.map(Source.tupled)

  private def in(packageName: String): Seq[Source] = {
    val found = sources.filter(_.packageName == packageName)
    assert(found.nonEmpty, packageName)
    found
  }

  private val shared = Map(
    "common" -> Set.empty[String],
    "checkpoint" -> Set("common"),
    "state" -> Set("common", "checkpoint"),
    "explain" -> Set("common"),
    "driver" -> Set("common", "checkpoint", "explain"),
    "plan" -> Set("common")
  )
  private val ofCapabilities = shared.keySet

  private val allowed: Map[String, Set[String]] = shared ++ Map(
    "join" -> ofCapabilities,
    "label" -> (ofCapabilities + "join"),
    "examples" -> (ofCapabilities ++ Set("join", "label", "asof")),
    "sync" -> (ofCapabilities + "join"),
    "asof" -> (ofCapabilities + "join"),
    "replay" -> ofCapabilities,
    "recursion" -> ofCapabilities,
    "watermark" -> ofCapabilities,
    "windows" -> (ofCapabilities + "tables" + "watermark"),
    "tables" -> ofCapabilities,
    "ops.rewrite" -> (ofCapabilities + "join"),
    "ops.rescale" -> (ofCapabilities + "join" + "ops.rewrite"),
    "ops.exchange" -> (ofCapabilities + "join" + "ops.rewrite" + "ops.inspect"),
    "ops.backfill" -> (ofCapabilities + "ops.rewrite"),
    "ops.erase" -> (ofCapabilities + "join" + "ops.rewrite" + "ops.inspect"),
    "ops.inspect" -> (ofCapabilities ++ Set("join", "replay", "watermark", "sync", "recursion")),
    "api" -> (ofCapabilities ++ Set(
      "join",
      "label",
      "examples",
      "sync",
      "asof",
      "replay",
      "watermark",
      "windows",
      "tables",
      "recursion",
      "ops.rescale",
      "ops.erase",
      "ops.exchange",
      "ops.backfill",
      "testing"
    )),
    "connect" -> Set("api", "common", "testing"),
    "testing" -> Set("checkpoint", "driver", "watermark"),
    "monitor" -> Set("common", "checkpoint", "explain"),
    "ops.why" -> (ofCapabilities ++ Set(
      "join",
      "ops.inspect",
      "label",
      "sync",
      "asof",
      "watermark",
      "recursion"
    ))
  )

  test("each file stands in the directory of its package") {
    sources.foreach { s =>
      assert(s.path.startsWith(s.packageName.replace('.', '/') + "/"), s.path)
    }
  }

  test("what differs between minor versions of Spark is in the bridge") {
    val shims = ScalaSources.ofOneSpark.map(Source.tupled)
    assert(
      shims.nonEmpty && shims.forall(_.packageName == "org.apache.spark.sql.tailrace"),
      shims.map(_.path)
    )
  }

  test("no package but the known ones") {
    val known = allowed.keySet.map("io.tailrace." + _) + "io.tailrace" + "org.apache.spark.sql.tailrace"
    assert(sources.map(_.packageName).toSet == known)
  }

  allowed.foreach { case (name, others) =>
    test(
      s"$name uses ${if (others.isEmpty) "no other package" else others.toSeq.sorted.mkString(", ") + " only"}"
    ) {
      in(s"io.tailrace.$name").foreach(s => assert((s.ours -- others - name).isEmpty, s.path))
    }
  }

  test("the bridge into Spark uses nothing of ours") {
    in("org.apache.spark.sql.tailrace").foreach(s => assert(s.ours.isEmpty, s.path))
  }

  // Spark's packages that our code may use outside of the bridge: what it uses of them is the same in all minor
  // versions that we build for. `execution` has operators and their traits.
  private val lasting =
    Set("broadcast", "internal", "internal.io", "memory", "network.util", "rdd", "scheduler") ++
      Set("storage", "util", "sql.execution", "sql.execution.metric")
  private val lastingWithAllBelow =
    Seq("unsafe", "sql.connector", "sql.functions", "sql.sources", "sql.streaming") ++
      Seq("sql.tailrace", "sql.types", "sql.util", "sql.catalyst")
  private val changing = Set("sql.catalyst.streaming")

  private def isLasting(name: String): Boolean = name.isEmpty || name == "sql" || lasting(name) ||
    (!changing(name) && lastingWithAllBelow.exists(p => name == p || name.startsWith(s"$p.")))

  // The plugin's own interface. Platforms without Spark Connect have none of these classes, so the bridge has none.
  private def isOfConnect(name: String): Boolean = name == "connect.proto" || name.startsWith("sql.connect.")

  test("packages of Spark that change between minor versions are used by the bridge alone") {
    val found = for {
      source <- sources if source.path.startsWith("io/")
      name <- source.sparks
      if !isLasting(name) && !(source.packageName == "io.tailrace.connect" && isOfConnect(name))
    } yield s"${source.path}: org.apache.spark.$name"
    assert(found.isEmpty)
  }

  test("all of Spark that code names is seen: imports, names in braces, names in full") {
    def of(line: String) = Source("", Seq("package io.tailrace.x", line)).sparks
    assert(of("import org.apache.spark.sql.classic.SparkSession") == Set("sql.classic"))
    assert(of("import org.apache.spark.sql.{classic, Row}") == Set("sql.classic", "sql"))
    assert(of("import org.apache.spark.sql.{Row, execution => e}") == Set("sql.execution", "sql"))
    assert(of("import org.apache.spark.TaskContext") == Set(""))
    assert(
      of("  val a = new org.apache.spark.sql.execution.streaming.state.RocksDB") ==
        Set("sql.execution.streaming.state")
    )
    assert(of("// org.apache.spark.sql.classic").isEmpty)
  }

  test("pure files use no Spark") {
    val pure = Seq(
      "asof/AsOfOptions",
      "common/OrderedBytes",
      "common/WatermarkRules",
      "label/JoinWindow",
      "label/MatchPolicy",
      "windows/LandingLog",
      "windows/Windows",
      "checkpoint/CheckedFile",
      "watermark/Completeness",
      "watermark/HostTable",
      "driver/Idleness",
      "explain/WaitFacts",
      "explain/WaitText",
      "recursion/FeedbackFile",
      "recursion/RecursionOptions",
      "recursion/RowJudge",
      "replay/MarkTable",
      "replay/RecordMetadata",
      "sync/SyncMemory",
      "sync/SyncOptions",
      "state/RunPage",
      "state/StoreKind",
      "sync/PartitionProgress",
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
          Seq("java.", "javax.", "jakarta.", "sun.reflect.", "scala.", "org.", "com.", "net.", "io.tailrace.")
            .exists(r => line.startsWith(s"import $r"))
        assert(rooted, s"${s.path}: $line")
      }
    }
  }
}
