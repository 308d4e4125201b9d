package io.tailrace.recursion

import org.apache.spark.sql.functions.lit

import io.tailrace.common.TailraceAnalysisException
import io.tailrace.testkit.SparkSuite

final class RecursionCallSuite extends SparkSuite {
  private val options =
    RecursionOptions(depthColumn = Some("depth"), pathColumns = Seq("id"), onCycle = "mark")

  private def refused(existing: String, options: RecursionOptions): TailraceAnalysisException = {
    val frame = spark.range(1).withColumn(existing, lit(1))
    intercept[TailraceAnalysisException](new RecursionCall(frame, options))
  }

  test("an added column that exists already is refused; only the depth's column can have another name") {
    Seq("depth" -> true, "path" -> false, "_mark" -> false).foreach { case (existing, isOption) =>
      val error = refused(existing, options)
      assert(error.getCondition == "TAILRACE_COLUMN_EXISTS", existing)
      assert(error.getMessageParameters.get("column") == existing)
      assert(error.getMessageParameters.get("cure").contains("depth_column") == isOption, existing)
    }
  }

  test("the depth's column can't have the name of another added column") {
    val error = refused("other", options.copy(depthColumn = Some("PATH")))
    assert(error.getCondition == "TAILRACE_OPTION_INVALID")
    assert(error.getMessageParameters.get("value") == "PATH")
  }
}
