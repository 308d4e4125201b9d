package org.apache.spark.sql.tailrace

import org.apache.spark.api.python.{PythonEvalType, SimplePythonFunction}
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.types.StructType

/** A function of PySpark's without code: enough to build a plan, not to run it. */
object PythonFunctions {

  def transformWithState(output: StructType): PythonUDF = {
    val empty = new java.util.ArrayList[String]
    val function = SimplePythonFunction(
      Nil,
      new java.util.HashMap,
      empty,
      "python",
      "3",
      new java.util.ArrayList,
      null
    )
    val evalType = PythonEvalType.SQL_TRANSFORM_WITH_STATE_PYTHON_ROW_UDF
    PythonUDF("f", function, output, Nil, evalType, udfDeterministic = false)
  }
}
