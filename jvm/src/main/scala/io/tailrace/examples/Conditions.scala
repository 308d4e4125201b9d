package io.tailrace.examples

import org.apache.spark.sql.AnalysisException

import io.tailrace.common.TailraceAnalysisException

/** Conditions that users write in SQL. */
private[examples] object Conditions {

  /** Returns the result of `body` for a condition. Spark's error names neither the call nor the condition.
    *
    * @param argument of `call`
    * @param columns  that the condition may name
    * @throws io.tailrace.common.TailraceAnalysisException if it can't be read
    */
  def read[T](call: String, argument: String, condition: String, columns: Seq[String])(body: => T): T =
    try body
    catch {
      case ours: TailraceAnalysisException => throw ours
      case e: AnalysisException =>
        throw ExampleErrors.condition(call, argument, condition, columns, e)
    }
}
