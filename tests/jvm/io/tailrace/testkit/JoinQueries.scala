package io.tailrace.testkit

import io.tailrace.label.JoinOptions
import io.tailrace.testkit.Times.seconds

/** Queries of one join whose rows come step by step, each in a directory of its own. */
trait JoinQueries { this: SparkSuite =>
  protected def served(t: Double, id: Int, k: String = "k"): Served = Served(k, seconds(t), id)
  protected def engaged(t: Double, id: Int, k: String = "k"): Engaged = Engaged(k, seconds(t), id)

  /** Rows of other keys, so late that the windows of all others close. */
  protected val far: (Seq[Served], Seq[Engaged]) =
    (Seq(served(1000, 99, "end")), Seq(engaged(1000, 99, "nobody")))

  protected def query(o: JoinOptions, settings: (String, Any)*)(body: StreamHarness => Unit): Unit =
    withConf(settings: _*) {
      withDirectory(d => body(new StreamHarness(spark, d)(StreamHarness.join(o)).start()))
    }

  /** The labels of each left row of the key "k" that was emitted unmarked. */
  protected def groups(h: StreamHarness): Map[Int, Seq[Int]] =
    h.all.filter(e => e.key == "k" && e.mark.isEmpty).flatMap(e => e.id.map(_ -> e.labels)).toMap
}
