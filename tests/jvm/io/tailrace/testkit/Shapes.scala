package io.tailrace.testkit

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._

import io.tailrace.api.Tailrace
import io.tailrace.label.JoinOptions
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.watermark.WatermarkOptions

/** A query on two frames of [[Event]]s, made of a few operators, of which each uses what earlier ones give, and some of it
  * several times. All frames in it have the columns `k`, `t`, the event time, and `v`, a text that says what a row is made of.
  */
final case class Shape(steps: Vector[Shape.Step]) {
  def apply(left: DataFrame, right: DataFrame): DataFrame =
    steps.foldLeft(Vector.empty[DataFrame])((frames, step) => frames :+ step.build(left, right, frames)).last

  def isSynced: Boolean = steps.exists(_.text.startsWith("sync_join"))

  override def toString: String =
    steps.zipWithIndex.map { case (step, i) => s"f$i = ${step.text}" }.mkString("; ")
}

object Shape {

  /** @param once   whether its frame may be used once only: the operator in it has a name in the query's checkpoint
    * @param weight operators in it; a frame that is used twice is there twice
    */
  final case class Step(text: String, once: Boolean, weight: Int)(
      val build: (DataFrame, DataFrame, Vector[DataFrame]) => DataFrame
  )

  /** More than rows are ever out of order: none is late, however batches are cut. */
  private val Delay = "40 seconds"

  /** Each costs time in each batch. */
  private val MostOperators = 6

  def random(seed: Long): Shape = new Maker(new Random(seed)).shape()

  /** Rows of both frames, in the order in which they come. */
  def events(seed: Long): (Seq[Event], Seq[Event]) = {
    val random = new Random(seed)
    def one() = (0 until 40).map { i =>
      val k = if (random.nextInt(20) == 0) null else Seq("a", "b", "c", "d")(random.nextInt(4))
      val kind = if (random.nextBoolean()) "imp" else "click"
      Event.at(k, i * 2.5 + random.nextInt(15), i, kind)
    }
    (one(), one())
  }

  /** Rows that the watermark passes all others with, in several batches: behind a synced join, whose release is two batches
    * behind what it has read, nobody has a batch run for the watermark alone.
    */
  val ends: Seq[Seq[Event]] = (0 until 4).map { i =>
    Seq("imp", "click").zipWithIndex.map { case (kind, n) =>
      val id = 1000 + 2 * i + n
      Event.at(s"end-$id", Event.End + 1000.0 * i, id, kind)
    }
  }

  private def canonical(frame: DataFrame, t: String, v: String): DataFrame = frame.select(
    col("k"),
    col(t).as("t"),
    expr(s"IF(length($v) > 80, md5($v), $v)").as("v")
  )

  private def renamed(frame: DataFrame): DataFrame = frame.toDF("k_", "t_", "v_")

  private final class Maker(random: Random) {
    private var steps = Vector.empty[Step]
    private var spent = Set.empty[Int]

    private def pick[T](of: T*): T = of(random.nextInt(of.size))

    def shape(): Shape = {
      add(leaf("l"))
      add(leaf("r"))
      if (random.nextInt(6) == 0) add(synced)
      val operators = 2 + random.nextInt(4)
      while (steps.size < 2 + operators) {
        val (before, spentBefore) = (steps, spent)
        add(operator())
        if (steps.last.weight > MostOperators) {
          steps = before
          spent = spentBefore
        }
      }
      Shape(steps)
    }

    private def add(step: Step): Unit = steps :+= step

    private def frame(): Int = {
      val free = steps.indices.filterNot(spent)
      val i = if (random.nextInt(3) > 0) free.last else free(random.nextInt(free.size))
      if (steps(i).once) spent += i
      i
    }

    private def one(text: String)(f: DataFrame => DataFrame): Step = {
      val i = frame()
      Step(s"$text(f$i)", steps(i).once, 1 + steps(i).weight)((_, _, frames) => f(frames(i)))
    }

    private def two(text: String)(f: (DataFrame, DataFrame) => DataFrame): Step = {
      val i = frame()
      if (steps.indices.forall(spent)) add(leaf("r"))
      val j = frame()
      Step(s"$text(f$i, f$j)", steps(i).once || steps(j).once, 1 + steps(i).weight + steps(j).weight) {
        (_, _, frames) => f(frames(i), frames(j))
      }
    }

    private def leaf(side: String): Step = {
      val n = steps.size
      val how = pick("withWatermark", "withWatermark", "accurate_watermark", "filter_replays")
      Step(s"$how($side)", how == "filter_replays", weight = 0) { (l, r, _) =>
        val raw = if (side == "l") l else r
        val marked = how match {
          case "accurate_watermark" =>
            val options = WatermarkOptions(completeness = "100%", delay = Delay, name = s"watermark$n")
            Tailrace.accurateWatermark(raw, "t", "kind", options)
          case "filter_replays" =>
            // Every fifth record is one that was there before.
            val origins = raw.selectExpr(
              "*",
              "1L AS pid",
              "0 AS part",
              "CAST(id - IF(id % 5 = 4, 3, 0) AS BIGINT) AS at",
              "CAST(id AS BIGINT) AS arrived"
            )
            val options = ReplayOptions(Seq("pid", "part", "at"), Seq("part", "arrived"), name = s"replays$n")
            Tailrace.filterReplays(origins.withWatermark("t", Delay), options)
          case _ => raw.withWatermark("t", Delay)
        }
        canonical(marked, "t", s"concat('$side', id)")
      }
    }

    private def synced: Step = {
      val oneToOne = random.nextBoolean()
      val text = if (oneToOne) "sync_join(l, r, one_to_one)" else "sync_join(l, r)"
      Step(text, once = true, weight = 1)((l, r, _) => syncedFrame(l, r, oneToOne))
    }

    private def syncedFrame(l: DataFrame, r: DataFrame, oneToOne: Boolean): DataFrame = {
      val joined =
        if (l.isStreaming) {
          val options = SyncOptions(
            leftTime = "t",
            rightTime = "t",
            window = "1 day",
            syncDelay = Delay,
            leftPartition = Seq("kind"),
            rightPartition = Seq("kind"),
            oneToOne = oneToOne
          )
          Tailrace.syncJoin(l.withWatermark("t", Delay), r, Seq("id" -> "id"), options)
        } else {
          val other = r.toDF(r.columns.map(c => if (c == "id") c else s"${c}_right").toIndexedSeq: _*)
          l.join(other, Seq("id"), "left").withColumn("t", col("t"))
        }
      canonical(joined, "t", "concat(id, kind, '~', coalesce(kind_right, 'none'))")
    }

    private def operator(): Step = random.nextInt(14) match {
      case 0 | 1 | 2 => labels
      case 3 | 4 => pairs
      case 5 | 6 => intervalJoin
      case 7 => deduplicated
      case 8 => counts
      case 9 => recursion
      case 10 => union
      case 11 => filtered
      case 12 => viaView
      case _ => static
    }

    private def seconds(): Int = pick(0, 3, 10, 25)

    private def labels: Step = {
      val (before, after) = (seconds(), seconds())
      two(s"join[-$before, +$after]") { (l, r) =>
        val options = JoinOptions("t", "t_", s"$after seconds", s"$before seconds")
        val joined = Tailrace.join(l, renamed(r), Seq("k" -> "k_"), options)
        canonical(joined, "t", "concat(v, '<', array_join(array_sort(labels.v_), ','), '>')")
      }
    }

    private def pairs: Step = {
      val (before, after, time) = (seconds(), seconds(), pick("t", "t_"))
      two(s"pairs[-$before, +$after, $time]") { (l, r) =>
        val options = JoinOptions("t", "t_", s"$after seconds", s"$before seconds", how = "inner")
        canonical(Tailrace.join(l, renamed(r), Seq("k" -> "k_"), options), time, "concat(v, '+', v_)")
      }
    }

    private def intervalJoin: Step = {
      val (before, after, how) = (seconds(), seconds(), pick("inner", "left"))
      two(s"Spark's $how join[-$before, +$after]") { (l, r) =>
        val near =
          s"x.t >= y.t - INTERVAL $before SECONDS AND y.t >= x.t - INTERVAL $after SECONDS".replace(
            "x.t",
            "t"
          )
        val condition = expr(s"x.k = y.k_ AND ${near.replace("y.t", "t_")}")
        val joined = l.as("x").join(renamed(r).as("y"), condition, how)
        canonical(joined.select("x.*", "y.v_"), "t", "concat(v, '*', coalesce(v_, 'none'))")
      }
    }

    private def deduplicated: Step = one("deduplicated") { f =>
      if (f.isStreaming) f.dropDuplicatesWithinWatermark("k", "t", "v") else f.dropDuplicates("k", "t", "v")
    }

    private def counts: Step = one("window") { f =>
      val grouped =
        f.groupBy(col("k"), window(col("t"), "10 seconds")).agg(array_sort(collect_list("v")).as("vs"))
      canonical(
        grouped.withColumn("end", window_time(col("window"))),
        "end",
        "concat('#', array_join(vs, '|'))"
      )
    }

    private def recursion: Step = {
      val n = steps.size
      one("recursively") { f =>
        val edges = f.sparkSession.sql("SELECT 'a' AS k, 'b' AS up UNION ALL SELECT 'b', 'c'")
        val deep = Tailrace.recursively(f, RecursionOptions(name = s"recursion$n")) { u =>
          u.join(edges, "k").selectExpr("up AS k", "t", "concat(v, '^') AS v")
        }
        canonical(deep, "t", "v")
      }
    }

    private def union: Step = two("union")((l, r) => l.unionByName(r))

    private def filtered: Step = one("filtered")(f => f.where("hash(v) % 3 != 0"))

    private def viaView: Step = {
      val n = steps.size
      one("WITH") { f =>
        val view = s"shape_$n"
        f.createOrReplaceTempView(view)
        f.sparkSession.sql(s"WITH c AS (SELECT * FROM $view) SELECT k, t, concat(v, '.') AS v FROM c")
      }
    }

    private def static: Step = one("table") { f =>
      val names = f.sparkSession.sql("SELECT 'a' AS k, 'A' AS n UNION ALL SELECT 'c', 'C'").cache()
      canonical(f.join(names, Seq("k"), "left"), "t", "concat(v, coalesce(n, '?'))")
    }
  }
}
