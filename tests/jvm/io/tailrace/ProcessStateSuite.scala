package io.tailrace

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.testkit.ScalaSources

/** State that a process keeps for all queries is in two places, whose heads say when each thing begins and ends:
  * `ExecutorProcess`, and `DriverRuns` for what belongs to a run. Elsewhere no object has a field that changes, but for the
  * exceptions here. The suite reads the sources.
  */
final class ProcessStateSuite extends AnyFunSuite {
  private lazy val sources: Map[String, Seq[String]] = ScalaSources.all.toMap

  private val Definition =
    """\s*(?:(?:private|protected|sealed|final|abstract|case|implicit|lazy|override|@\w+)(?:\[\w+\])?\s+)*(package object|object|class|trait|def|val|var)\s+(\w+).*""".r
  private val Mutable = Seq(
    """\bvar\b""",
    """@volatile""",
    """\bmutable\.""",
    """\bnew (?:[\w.]*\.)?\w*(?:HashMap|HashSet|TreeMap|WeakHashMap|ListMap|Buffer|Queue|Deque|ArrayList|List|Set)\b[\[( ]""",
    """\b(?:Concurrent\w+|CopyOnWrite\w+|Atomic\w+|ThreadLocal|LongAdder|LRUCache|RateLimiter)\b""",
    """\b(?:newKeySet|newSetFromMap|synchronized(?:Map|Set|List))\b""",
    """\bSparkState\.(?:threads|inOrder)\b""",
    """\bThreadUtils\.""",
    """\bExecutors\."""
  ).mkString("|").r

  /** The fields of objects with their owner and code, but for those in classes and methods. Lines are indented as scalafmt
    * does.
    */
  private def fields(lines: Seq[String]): Seq[(String, String, String)] = {
    def indent(line: String) = line.takeWhile(_ == ' ').length
    val code = lines.filterNot(line => line.isBlank || line.trim.matches("""(?:\*|/\*|//).*"""))
    var open = List.empty[(Int, String, String)]
    code.zipWithIndex.flatMap { case (line, i) =>
      if (!line.trim.startsWith(")") && !line.trim.startsWith("}"))
        open = open.dropWhile(_._1 >= indent(line))
      line match {
        case Definition(kind @ ("val" | "var"), name) =>
          val isOfObject = open.nonEmpty && open.forall(_._2.endsWith("object"))
          val rest = code.drop(i + 1).takeWhile(next => indent(next) > indent(line))
          val text = (line +: rest).mkString(" ").replaceAll("\"[^\"]*\"", "\"\"").replaceAll("//.*", "")
          open ::= ((indent(line), kind, name))
          Option.when(isOfObject)((open.tail.head._3, name, text))
        case Definition(kind, name) =>
          open ::= ((indent(line), kind, name))
          None
        case _ => None
      }
    }
  }

  private def mutable(lines: Seq[String]): Seq[String] = fields(lines).collect {
    case (owner, name, text)
        if Mutable.findFirstIn(text).nonEmpty && !text.contains("new ProcessPart") &&
          !text.contains("new RunState") =>
      s"$owner.$name"
  }

  private val allowed = Map(
    "io/tailrace/common/ExecutorProcess.scala: ExecutorProcess.parts" -> "the place itself",
    "io/tailrace/driver/RunState.scala: DriverRuns.runs" -> "the place itself",
    "io/tailrace/driver/RunState.scala: DriverRuns.watched" -> "the SparkContexts that tell it of ended runs",
    "io/tailrace/TailraceExtensions.scala: TailraceExtensions.extended" ->
      "sessions that are being built, as long as they are referred to: Spark has no other mark of an applied extension",
    "io/tailrace/watermark/Reporter.scala: Reporter.living" ->
      "reporters that still have to tell a server of their run's end, which they do after it",
    "io/tailrace/windows/LandingFolder.scala: WrittenFolders.slots" -> "locks: one query of a JVM writes a folder",
    "io/tailrace/ops/rewrite/StoppedQuery.scala: Claim.inThisJvm" -> "locks: one command changes a checkpoint",
    "io/tailrace/monitor/ApplicationMetrics.scala: ApplicationMetrics.current" -> "of the SparkContext",
    "io/tailrace/connect/TailraceRelations.scala: ConnectObjects.ofSessions" -> "of Connect's sessions, until they end",
    "io/tailrace/recursion/RecursionCall.scala: RecursionCall.ids" -> "a number that no two calls share",
    "io/tailrace/recursion/Recursion.scala: ArgumentRDD.generation" -> "of a task, in its thread",
    "io/tailrace/join/ColumnChanges.scala: JoinShapes.ofThread" -> "projections of a thread, sixteen at most",
    "io/tailrace/testing/TestStreams.scala: TestRows.open" -> "streams of open tests, which executors' tasks find by it",
    "io/tailrace/testing/FaultyFileManager.scala: CheckpointFaults.reached" -> "Spark makes the file manager by its class",
    "io/tailrace/testing/FaultyFileManager.scala: CheckpointFaults.last" -> "the same",
    "io/tailrace/testing/FaultyFileManager.scala: CheckpointFaults.crash" -> "the same",
    "org/apache/spark/sql/tailrace/DriverCalls.scala: DriverCalls.endpoint" -> "of the SparkEnv; the bridge uses nothing of ours",
    "org/apache/spark/sql/tailrace/DriverCalls.scala: DriverCalls.driver" -> "the same",
    "org/apache/spark/sql/tailrace/DriverCalls.scala: DriverCalls.threads" -> "the same"
  )

  test("no object but the two keeps state that changes, with exceptions") {
    val found = for ((path, lines) <- sources.toSeq; name <- mutable(lines)) yield s"$path: $name"
    assert(found.toSet.diff(allowed.keySet).isEmpty)
    assert(allowed.keySet.diff(found.toSet).isEmpty, "these exceptions are needed no longer")
  }

  test("fields of objects that change are found, and those of classes and methods are others") {
    val code = """object Cache {
                 |  /** A var of old. */
                 |  val Empty: Map[String, Int] = Map.empty
                 |  private val first =
                 |    new ConcurrentHashMap[String, Int]
                 |  @volatile private var second = 0
                 |  private[x] lazy val third = new java.util.HashMap[String, Int](16)
                 |  private val part = new ProcessPart("x")(new ConcurrentHashMap[String, Int])
                 |  object Inner {
                 |    val fourth = mutable.Map.empty[String, Int]
                 |  }
                 |  final class Own {
                 |    private val own = new AtomicLong
                 |    var other = 0
                 |  }
                 |  def method(): Unit = {
                 |    var local = new AtomicLong
                 |  }
                 |  val fifth = new AtomicLong
                 |}
                 |final class Other {
                 |  var own = 0
                 |}""".stripMargin
    assert(
      mutable(code.linesIterator.toSeq) ==
        Seq("Cache.first", "Cache.second", "Cache.third", "Inner.fourth", "Cache.fifth")
    )
  }

  private def head(path: String): Seq[String] = sources(path).filter(_.trim.startsWith("*"))

  test("the head of ExecutorProcess names each part and its file") {
    val named = head("io/tailrace/common/ExecutorProcess.scala")
    val parts = for {
      (path, lines) <- sources.toSeq
      name <- """new ProcessPart(?:\[\w+\])?\("([^"]+)"\)""".r
        .findAllMatchIn(lines.mkString("\n"))
        .map(_.group(1))
    } yield name -> path.stripPrefix("io/tailrace/").stripSuffix(".scala")
    assert(parts.nonEmpty && parts.map(_._1).distinct.size == parts.size)
    parts.foreach { case (name, path) =>
      assert(named.exists(line => line.contains(s"  $name ") && line.contains(s" $path ")), s"$name of $path")
    }
  }

  test("the head of DriverRuns names each file that declares state of runs") {
    val named = head("io/tailrace/driver/RunState.scala")
    val files = sources.collect {
      case (path, lines) if lines.exists(_.contains("new RunState")) =>
        path.stripPrefix("io/tailrace/").stripSuffix(".scala")
    }
    assert(files.nonEmpty)
    files.foreach(path => assert(named.exists(_.contains(s" $path ")), path))
  }

  test("only the clock of a run tells the time, and the age of files is judged by that of the system") {
    val found = sources.collect {
      case (path, lines) if lines.exists(_.contains("currentTimeMillis")) => path
    }
    assert(
      found.toSet ==
        Set("org/apache/spark/sql/tailrace/StreamingRun.scala", "io/tailrace/state/LocalDirectory.scala")
    )
  }
}
