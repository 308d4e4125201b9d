package io.tailrace.join

import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace.SparkSession

import io.tailrace.common.{Durations, TailraceConf}
import io.tailrace.driver._

/** Warns, once until a row is emitted, of a join that has had input for a while and has given nothing, if it is
  * known why. The text is that of `tailrace why`.
  */
private[join] object NoOutputWarning extends Logging {
  private val joins = new RunState[NoOutput]

  /** A batch of a join has ended, in the thread of its query.
    *
    * @param rows  that it has read, and that it has given
    * @param waits what its rows wait for
    */
  def after(exec: StoredJoinExec, rows: (Long, Long))(waits: => JoinFacts): Unit = {
    val session: SparkSession = exec.session
    val (in, out) = rows
    val noted = joins.of(session, exec.workName) {
      new NoOutput(TailraceConf.NoOutputAfter.read(exec.setting))
    }
    noted.after(exec.getStateInfo.storeVersion, DriverClock.ms, in > 0, out > 0).foreach { forMs =>
      val facts = waits
      if (facts.isReason) {
        noted.told()
        val watermark = facts match {
          case _: LabelFacts =>
            WatermarkText.of(
              QueryWatermark.facts(session, exec.eventTimeWatermarkForEviction.getOrElse(0L))
            )
          case _: SyncFacts => Nil
        }
        logWarning(
          s"TAILRACE_NO_OUTPUT: ${exec.workName} has had input for ${Durations.text(forMs * 1000)}, and nothing has " +
            s"come out. ${(watermark ++ WaitText.of(facts)).mkString(" ")}"
        )
      }
    }
  }
}
