package io.tailrace.testkit

import java.io.File

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.classic.SparkSession
import org.scalatest.Assertions

/** A query whose operator of cluster starts it again whenever it has failed. Its checkpoint must be one of
  * [[WatchedFiles]].
  *
  * @param batches of the input; each may fail several times
  */
final class UnluckyStream(spark: SparkSession, checkpoint: File, how: String) extends Assertions {
  private val harness = new StreamHarness(spark, checkpoint)(NeverLate.query(NeverLate.options(how)))
  private var taken = Vector.empty[NeverLate.Batch]
  private var isUp = false

  /** The error that the batch, or the start before it, met; None if it met none. */
  def attempt(batch: Option[NeverLate.Batch]): Option[Throwable] =
    try {
      batch.foreach(b => taken :+= b)
      if (isUp) batch.foreach { case (served, engaged) => harness.add(served, engaged) }
      else batch.foreach { case (served, engaged) => harness.preload(served, engaged) }
      if (!isUp) harness.start()
      isUp = true
      harness.settle()
      None
    } catch {
      case NonFatal(e) =>
        stop()
        Some(e)
    }

  def stop(): Unit = {
    if (isUp) harness.stop()
    isUp = false
  }

  /** Until it works. */
  def persistently(batch: Option[NeverLate.Batch], attempts: Int = 20): Seq[Throwable] =
    attempt(batch) match {
      case Some(e) if attempts > 0 => e +: persistently(None, attempts - 1)
      case Some(e) => throw e
      case None => Nil
    }

  /** Ends the input; what has come out must be what the oracle says, and each batch's rows those of its first attempt. */
  def finish(): Unit = {
    val expected = NeverLate.expected(taken, how)
    persistently(Some(NeverLate.end))
    stop()
    assert(harness.changed == Set.empty)
    assert(harness.all == expected)
    ()
  }
}

object UnluckyStream {

  private def causes(e: Throwable): Seq[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).toSeq

  /** The condition of Tailrace that an error comes from, and the file that it names. */
  def fileNamed(e: Throwable): Option[(String, String)] = causes(e).collectFirst {
    case t: SparkThrowable if t.getCondition != null && t.getCondition.startsWith("TAILRACE_") =>
      t.getCondition -> t.getMessageParameters.getOrDefault("file", "")
  }
}
