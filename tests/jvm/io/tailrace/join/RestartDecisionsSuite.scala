package io.tailrace.join

import java.io.File
import java.nio.file.{Files, Path => LocalPath}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.api.Tailrace
import io.tailrace.asof.{AsOfOptions, AsOfStrategy}
import io.tailrace.common.{TailraceAnalysisException, TailraceConf}
import io.tailrace.examples.{ExampleAttribution, ExampleLabel, ExampleOptions, ExampleSample}
import io.tailrace.label.{JoinOptions, LabelJoinStrategy}
import io.tailrace.sync.{SyncJoinStrategy, SyncOptions}
import io.tailrace.testkit.{SlowSuite, SparkSuite}

/** Decisions on every pair of definitions of an operator: the first one has written a checkpoint, and the second one
  * starts from it. `tests/golden/restart-decisions.txt` has what was decided when the file was recorded: the error's
  * sentences, or the settings that the checkpoint is bound to from then on.
  *
  * {{{
  *   = sentences        7: refused: `how` was 'left' and is now 'inner'
  *   = join             after=60 > 12 12 7 ...       one decision for each definition, in the same order
  * }}}
  *
  * An older checkpoint (`old`) has none of the settings that later releases have added, and no columns but as texts.
  */
final class RestartDecisionsSuite extends SparkSuite with SlowSuite {
  private type Definition = (String, StoredJoin)

  /** @param of what the names of columns begin with: those of the right side are others */
  private def rows(time: String, of: String = ""): DataFrame = spark.readStream
    .format("rate")
    .load()
    .selectExpr(
      "cast(value as string) k",
      s"cast(value as int) ${of}n",
      s"value ${of}item",
      s"timestamp $time",
      s"timestamp + interval 1 second ${time}2",
      s"cast(value % 2 as int) ${of}part"
    )
    .withWatermark(time, "1 second")

  private def stored(frame: DataFrame): StoredJoin = {
    val plan = SparkPlans.analyzed(frame)
    val planned = plan.collect { case node: JoinNode => node }.head
    Seq(LabelJoinStrategy, AsOfStrategy, SyncJoinStrategy)
      .flatMap(_(planned))
      .flatMap(_.collectFirst { case exec: StoredJoinExec => exec.join })
      .head
  }

  private lazy val joins: Seq[Definition] = {
    val first = JoinOptions(leftTime = "t", rightTime = "rt", after = "30 seconds")
    val inner = first.copy(how = "inner")
    val horizons = first.copy(horizons = Seq("5 seconds"))
    def of(
        options: JoinOptions,
        on: Seq[(String, String)] = Seq("k" -> "k"),
        left: DataFrame => DataFrame = identity,
        right: DataFrame => DataFrame = identity
    ) = stored(Tailrace.join(left(rows("t")), right(rows("rt", "r")), on, options))
    val both = Seq("k" -> "k", "item" -> "ritem")
    Seq(
      "first" -> of(first),
      "after=60" -> of(first.copy(after = "60 seconds")),
      "after=20" -> of(first.copy(after = "20 seconds")),
      "before=5" -> of(first.copy(before = "5 seconds")),
      "before=9" -> of(first.copy(before = "9 seconds")),
      "inner" -> of(inner),
      "inner,after=60" -> of(inner.copy(after = "60 seconds")),
      "inner,before=5" -> of(inner.copy(before = "5 seconds")),
      "inner,before=5,late_labels=False" -> of(
        inner.copy(before = "5 seconds", lateLabels = Some(false))
      ),
      "one_to_one" -> of(inner.copy(oneToOne = true)),
      "into" -> of(first.copy(into = "clicks")),
      "match=first" -> of(first.copy(`match` = "first")),
      "decided" -> of(first.copy(`match` = "first", release = "decided")),
      "max_matches" -> of(first.copy(maxMatches = Some(1))),
      "on_late" -> of(first.copy(onLate = "mark")),
      "late_labels=False" -> of(first.copy(lateLabels = Some(false))),
      "late_impressions=True" -> of(first.copy(lateImpressions = Some(true))),
      "late_impressions=False" -> of(first.copy(lateImpressions = Some(false))),
      "release_every=20" -> of(first.copy(releaseEvery = Some("20 seconds"))),
      "release_every=batch" -> of(first.copy(releaseEvery = Some("batch"))),
      "idle_timeout" -> of(first.copy(idleTimeout = Some("1 hour"))),
      "early" -> of(first.copy(early = Some("10 seconds"))),
      "horizons=5" -> of(horizons),
      "horizons=5,10" -> of(first.copy(horizons = Seq("5 seconds", "10 seconds"))),
      "horizons=5,after=60" -> of(horizons.copy(after = "60 seconds")),
      "emit=changes" -> of(horizons.copy(emit = "changes")),
      "emit=defer" -> of(horizons.copy(emit = "defer")),
      "amend_for" -> of(first.copy(amendFor = Some("20 seconds"))),
      "orphans" -> of(first.copy(orphans = true)),
      "salted_keys=1" -> of(first.copy(saltedKeys = Seq(Seq("1")), saltBuckets = Some(2))),
      "salted_keys=2" -> of(first.copy(saltedKeys = Seq(Seq("2")), saltBuckets = Some(2))),
      "salt_buckets=3" -> of(first.copy(saltedKeys = Seq(Seq("1")), saltBuckets = Some(3))),
      "inner,salted_keys=1" -> of(inner.copy(saltedKeys = Seq(Seq("1")), saltBuckets = Some(2))),
      "eager" -> withConf(TailraceConf.JoinStrategy.key -> "eager")(of(first)),
      "eager,after=60" -> withConf(TailraceConf.JoinStrategy.key -> "eager")(
        of(first.copy(after = "60 seconds"))
      ),
      "on=item" -> of(first, on = Seq("item" -> "ritem")),
      "on=k,item" -> of(first, on = both),
      "on=item,k" -> of(first, on = both.reverse),
      "left_time" -> of(
        first.copy(leftTime = "t2"),
        left = _.withWatermark("t2", "1 second")
      ),
      "right_time" -> of(
        first.copy(rightTime = "rt2"),
        right = _.withWatermark("rt2", "1 second")
      ),
      "left column added" -> of(first, left = _.withColumn("new", lit(1))),
      "right column dropped" -> of(first, right = _.drop("rn")),
      "wider" -> of(first, left = _.withColumn("n", col("n").cast("bigint"))),
      "narrower" -> of(first, right = _.withColumn("rn", col("rn").cast("smallint"))),
      "other order" -> of(first, left = _.select("part", "t", "t2", "item", "n", "k"))
    )
  }

  private lazy val asOfs: Seq[Definition] = {
    val first = AsOfOptions(leftTime = "t", rightTime = "rt")
    def of(
        options: AsOfOptions,
        key: (String, String) = "k" -> "k",
        left: DataFrame => DataFrame = identity
    ) =
      stored(Tailrace.asOf(left(rows("t")), rows("rt", "r"), Seq(key), options))
    Seq(
      "first" -> of(first),
      "into" -> of(first.copy(into = "profile")),
      "max_age=20" -> of(first.copy(maxAge = Some("20 seconds"))),
      "max_age=60" -> of(first.copy(maxAge = Some("60 seconds"))),
      "delay=5" -> of(first.copy(delay = "5 seconds")),
      "delay=9" -> of(first.copy(delay = "9 seconds")),
      "idle_timeout" -> of(first.copy(idleTimeout = Some("1 hour"))),
      "on_late" -> of(first.copy(onLate = "mark")),
      "on=item" -> of(first, key = "item" -> "ritem"),
      "left column dropped" -> of(first, left = _.drop("n"))
    )
  }

  private lazy val syncs: Seq[Definition] = {
    val first = SyncOptions("t", "rt", "30 seconds", "5 seconds", Seq("part"), Seq("rpart"))
    def of(
        options: SyncOptions,
        key: (String, String) = "k" -> "k",
        left: DataFrame => DataFrame = identity
    ) =
      stored(Tailrace.syncJoin(left(rows("t")), rows("rt", "r"), Seq(key), options))
    Seq(
      "first" -> of(first),
      "window=60" -> of(first.copy(window = "60 seconds")),
      "window=20" -> of(first.copy(window = "20 seconds")),
      "sync_delay" -> of(first.copy(syncDelay = "8 seconds")),
      "left_partition" -> of(first.copy(leftPartition = Seq("n"))),
      "right_partition" -> of(first.copy(rightPartition = Seq("rpart", "rn"))),
      "one_to_one" -> of(first.copy(oneToOne = true)),
      "on_unmatched_right" -> of(first.copy(onUnmatchedRight = "emit")),
      "on=item" -> of(first, key = "item" -> "ritem"),
      "left column added" -> of(first, left = _.withColumn("new", lit(1)))
    )
  }

  private lazy val examples: Seq[Definition] = {
    val first = ExampleOptions("t")
    val click = ExampleLabel("click", "rt", Seq("k" -> "k"), "30 seconds")
    val buy = ExampleLabel("buy", "rt", Seq("k" -> "k"), "60 seconds")
    val since = Some(lit("2026-01-01 12:00:00").cast("timestamp"))
    val linear = Some(ExampleAttribution("linear"))
    def of(options: ExampleOptions, left: DataFrame => DataFrame = identity)(labels: ExampleLabel*) = {
      val clicks = rows("rt", "r")
      val buys = rows("rt", "r")
      val streams = labels.map(one => (if (one.name == "buy") buys else clicks) -> one)
      stored(Tailrace.examples(left(rows("t")), options)(streams: _*))
    }
    val item = Seq("k" -> "k", "item" -> "ritem")
    Seq(
      "first" -> of(first)(click, buy),
      "one label" -> of(first)(click),
      "other label" -> of(first)(buy),
      "third label" -> of(first)(click, buy, click.copy(name = "view")),
      "third label,since" -> of(first)(click, buy, click.copy(name = "view", since = since)),
      "since" -> of(first)(click, buy.copy(since = since)),
      "after=90" -> of(first)(click, buy.copy(after = "90 seconds")),
      "after=40" -> of(first)(click, buy.copy(after = "40 seconds")),
      "before=5" -> of(first)(click.copy(before = "5 seconds"), buy),
      "before=9" -> of(first)(click.copy(before = "9 seconds"), buy),
      "where" -> of(first)(click.copy(where = Some("rn % 2 = 0")), buy),
      "match" -> of(first)(click.copy(`match` = "first", maxMatches = None), buy),
      "linear" -> of(first)(click.copy(attribution = linear), buy),
      "linear,since" -> of(first)(click.copy(attribution = linear, since = since), buy),
      "linear,after" -> of(first)(click.copy(attribution = linear, after = "40 seconds"), buy),
      "last_touch" -> of(first)(click.copy(attribution = Some(ExampleAttribution("last_touch"))), buy),
      "linear,one label" -> of(first)(click.copy(attribution = linear)),
      "buy.on" -> of(first)(click, buy.copy(on = item)),
      "click.on" -> of(first)(click.copy(on = item), buy),
      "both.on" -> of(first)(click.copy(on = item), buy.copy(on = item)),
      "on_late" -> of(first.copy(onLate = "mark"))(click, buy),
      "release_every" -> of(first.copy(releaseEvery = Some("20 seconds")))(click, buy),
      "amend_for" -> of(first.copy(amendFor = Some("20 seconds")))(click, buy),
      "orphans" -> of(first.copy(orphans = true))(click, buy),
      "amend_for,buy.on" -> of(first.copy(amendFor = Some("20 seconds")))(click, buy.copy(on = item)),
      "horizons=5" -> of(first.copy(horizons = Seq("5 seconds")))(click, buy),
      "horizons=5,after=90" ->
        of(first.copy(horizons = Seq("5 seconds")))(click, buy.copy(after = "90 seconds")),
      "emit=changes" -> of(first.copy(horizons = Seq("5 seconds"), emit = "changes"))(click, buy),
      "seed=7" -> of(first.copy(sample = Some(ExampleSample(Seq("n = 5" -> 0.1), 7))))(click, buy),
      "seed=8" -> of(first.copy(sample = Some(ExampleSample(Seq("n = 5" -> 0.1), 8))))(click, buy),
      "time" -> of(first.copy(time = "t2"), _.withWatermark("t2", "1 second"))(click, buy),
      "column added" -> of(first, _.withColumn("new", lit(1)))(click, buy)
    )
  }

  private lazy val operators: Seq[(String, Seq[Definition])] = Seq(
    "join" -> joins,
    "examples" -> examples,
    "as_of" -> asOfs,
    "sync_join" -> syncs,
    "any operator" -> Seq(
      "join" -> joins.head._2,
      "inner join" -> joins.find(_._1 == "inner").get._2,
      "examples" -> examples.head._2,
      "as_of" -> asOfs.head._2,
      "sync_join" -> syncs.head._2
    )
  )

  private val conf = new Configuration
  private val later =
    Set(JoinCheckpoint.ReleaseEvery, JoinCheckpoint.LateLabels, "left_partition", "right_partition")

  private def old(written: JoinCheckpoint): JoinCheckpoint = {
    val settings = written.settings.filter { case (name, _) =>
      !later(name) && !name.startsWith(JoinCheckpoint.OfExamples) && !name.startsWith(JoinCheckpoint.Credits)
    }
    written.copy(settings = settings, schemas = Nil)
  }

  /** The sentences of an error, or what the checkpoint has from then on.
    *
    * @param path of the checkpoint, which is as it was afterwards
    */
  private def decision(path: Path, written: JoinCheckpoint, next: StoredJoin): Seq[String] = {
    try {
      val CheckpointBinding(bound, told) = CheckpointBinding.of(path, conf, 7, next, Nil)
      if (bound != written) JoinCheckpoint.write(path, conf, written): Unit
      val settings = (written.settings.keySet ++ bound.settings.keySet).toSeq.sorted.flatMap { name =>
        val (was, now) = (written.settings.get(name), bound.settings.get(name))
        Option.when(was != now)(s"bound: $name: ${was.getOrElse("none")} -> ${now.getOrElse("none")}")
      }
      val grown = bound.grown.drop(written.grown.size).map(growth => s"bound: $growth")
      settings ++ grown ++ told.map("told: " + _)
    } catch {
      case e: TailraceAnalysisException =>
        assert(e.getCondition == "TAILRACE_CHECKPOINT_INCOMPATIBLE")
        e.getMessageParameters.asScala("changes").split("; ").toSeq.map("refused: " + _)
    }
  }

  private def decisions(definitions: Seq[Definition]): Seq[(String, String, Seq[String])] =
    withDirectory { d =>
      val written = definitions.zipWithIndex.flatMap { case ((name, join), i) =>
        val path = new Path(new File(d, s"first-$i").toURI)
        val first = CheckpointBinding.of(path, conf, 0, join, Nil).checkpoint
        Seq(name -> first, s"old $name" -> old(first))
      }
      written.zipWithIndex.flatMap { case ((before, checkpoint), i) =>
        val path = new Path(new File(d, s"next-$i").toURI)
        JoinCheckpoint.write(path, conf, checkpoint): Unit
        definitions.map { case (after, join) => (before, after, decision(path, checkpoint, join)) }
      }
    }

  private val file: LocalPath = LocalPath.of("tests/golden/restart-decisions.txt")

  /** Each sentence once, with a number; then a line for each checkpoint. */
  private def recorded(all: Seq[(String, Seq[(String, String, Seq[String])])]): String = {
    val sentences = all.flatMap(_._2).flatMap(_._3).distinct.sorted
    val numbers = sentences.zipWithIndex.toMap
    val tables = all.flatMap { case (operator, made) =>
      s"= $operator" +: made.map(_._1).distinct.map { before =>
        val row = made.filter(_._1 == before).map(one => one._3.map(numbers).mkString(",")).map { cell =>
          if (cell.isEmpty) "-" else cell
        }
        s"$before > ${row.mkString(" ")}"
      }
    }
    val texts = sentences.zipWithIndex.map { case (sentence, i) => s"$i: $sentence" }
    ("= sentences" +: texts).concat(tables).mkString("", "\n", "\n")
  }

  private def read(text: String): Map[(String, String), Seq[Seq[String]]] = {
    val parts = text.split("(?m)^= ").toSeq.drop(1).map(_.linesIterator.toSeq)
    val sentences = parts.head.tail.map(line => line.split(": ", 2)).map(p => p(0) -> p(1)).toMap
    parts.tail.flatMap { lines =>
      lines.tail.map { line =>
        val parts = line.split(" > ", 2)
        (lines.head, parts.head) -> parts.last.split(" ").toSeq.map { cell =>
          if (cell == "-") Nil else cell.split(",").toSeq.map(sentences)
        }
      }
    }.toMap
  }

  test("every pair of definitions is decided as it was recorded, in the same words") {
    val all = operators.map { case (operator, definitions) => operator -> decisions(definitions) }
    if (!Files.exists(file)) {
      Files.writeString(file, recorded(all)): Unit
      fail(s"$file was missing, and has been recorded")
    }
    val expected = read(Files.readString(file))
    val differ = for {
      (operator, made) <- all
      (before, of) <- made.groupBy(_._1).toSeq
      ((_, after, now), was) <- of.zip(expected((operator, before)))
      if now != was
    } yield s"$operator: $before -> $after\n  was $was\n  now $now"
    assert(differ.isEmpty, s"${differ.size} decisions differ:\n${differ.take(20).mkString("\n")}")
    assert(all.map(_._2.size).sum == expected.values.map(_.size).sum)
  }

  /** The table of `docs/explanation/guarantees.md`: how each operator's settings may change. */
  private def table: String = {
    val columns = operators.filterNot(_._1 == "any operator")
    val cells = columns.map { case (_, definitions) =>
      val pinned = definitions.map { case (_, join) => join.pinned(join.columns) }
      pinned.flatMap(of => of.all.map(of -> _)).groupMap(one => shown(one._2)) { case (of, setting) =>
        val others = setting.value match {
          case PinnedValue.Inherited(_) => Seq("may be left out")
          case _ if of.mayLack.exists(setting.name.startsWith(_)) => Seq("may be added and removed")
          case _ => Nil
        }
        // Where the query doesn't have it, a change is one of another setting.
        if (setting.value == PinnedValue.Absent) Nil else setting.change.text +: others
      }
    }
    val names =
      columns.flatMap(_._2).flatMap { case (_, join) => join.pinned(join.columns).all }.map(shown(_))
    val rows = names.distinct.map { name =>
      val row = cells.map(_.getOrElse(name, Nil).flatten.distinct.sorted.mkString("; "))
      (s"`$name`" +: row).mkString("| ", " | ", " |")
    }
    val head = (" " +: columns.map { case (operator, _) => s" `$operator` " }).mkString("|", "|", "|")
    (head +: "|---|---|---|---|---|" +: rows).mkString("\n")
  }

  private def shown(setting: PinnedSetting): String = {
    val name = setting.argument
    Seq(JoinCheckpoint.OfExamples, JoinCheckpoint.Credits)
      .find(prefix => name.startsWith(prefix) && !name.endsWith(" seed"))
      .fold(name)(_ + "LABEL")
  }

  test("the page of the guarantees has the pinned settings as the code describes them") {
    val page = Files.readString(LocalPath.of("docs/explanation/guarantees.md"))
    assert(page.contains(s"-->\n$table\n<!--"), s"\n$table\n")
  }
}
