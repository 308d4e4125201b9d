package io.tailrace.testkit

import scala.util.Random

import org.apache.spark.sql.DataFrame

import io.tailrace.label.JoinOptions

/** Rows of which none is ever late, however batches are cut and whenever the query is started again: what comes out of
  * them is known without following the watermark.
  */
object NeverLate {
  type Batch = (Seq[Served], Seq[Engaged])

  private val after = 20L
  private val before = 5L

  def options(how: String = "left"): JoinOptions =
    StreamHarness.options(s"$after seconds").copy(before = s"$before seconds", how = how)

  /** Left rows are at most 10 seconds apart from their batch's time, right rows 25; batches go on by 10. */
  def query(options: JoinOptions): (DataFrame, DataFrame) => DataFrame =
    StreamHarness.join(options, "40 seconds", "40 seconds")

  def batch(i: Int, random: Random): Batch = {
    def key() = Seq("a", "b", "c")(random.nextInt(3))
    val served = Seq.tabulate(4)(n => Served(key(), Times.seconds(10.0 * i + random.nextInt(10)), i * 10 + n))
    val engaged =
      Seq.tabulate(4)(n => Engaged(key(), Times.seconds(10.0 * i + random.nextInt(25) - 15), i * 10 + n))
    (served, engaged)
  }

  /** Closes all windows but its own. */
  val end: Batch = {
    val years = Times.seconds(4.0 * 366 * 24 * 3600)
    (Seq(Served("end", years, -1)), Seq(Engaged("nobody", years, -2)))
  }

  /** All that comes out of these batches and the end. */
  def expected(batches: Seq[Batch], how: String = "left"): Seq[Emitted] = {
    val year = 366L * 24 * 3600 * 1000
    val oracle = new JoinOracle(before * 1000000, after * 1000000, how == "left", delays = (year, year))
    val all = oracle.step(batches.flatMap(_._1), batches.flatMap(_._2)) ++ oracle.step(end._1, end._2)
    Emitted.sorted(all.flatten)
  }
}
