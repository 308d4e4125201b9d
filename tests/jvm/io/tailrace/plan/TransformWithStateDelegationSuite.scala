package io.tailrace.plan

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.{LocalTableScanExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.tailrace.PythonFunctions
import org.apache.spark.sql.types.{IntegerType, StructType}

import io.tailrace.testkit.SparkSuite

/** PySpark's operator, which needs a Python worker to run. Spark's own suites run the Scala one: `TransformWithState...`
  * in org.apache.spark.sql.tailrace.
  */
final class TransformWithStateDelegationSuite extends SparkSuite {
  private val key = AttributeReference("k", IntegerType)()
  private val schema = new StructType().add("k", IntegerType)
  private def leaf = LocalTableScanExec(Seq(key), Nil, None)

  private def operator(streaming: Boolean): TransformWithStateInPySparkExec = {
    // A plan asks the session that was active when it was made.
    SparkSession.setActiveSession(spark)
    TransformWithStateInPySparkExec(
      PythonFunctions.transformWithState(schema),
      Seq(key),
      Seq(key),
      OutputMode.Update(),
      TimeMode.None(),
      None,
      None,
      None,
      None,
      None,
      TransformWithStateInPySpark.UserFacingDataType.PYTHON_ROW,
      leaf,
      streaming,
      hasInitialState = false,
      leaf,
      Nil,
      schema
    )
  }

  private def replaced(operator: TransformWithStateInPySparkExec): SparkPlan =
    TransformWithStateDelegation.preColumnarTransitions(ProjectExec(Seq(key), operator)).children.head

  test("a stream's operator is replaced by one that is the same in all but the check") {
    val before = operator(streaming = true)
    val after = replaced(before)
    assert(after.getClass == classOf[DelegatedTransformWithStateInPySpark])
    assert(after != before && before != after)
    assert(after.nodeName == before.nodeName)
    assert(after.productIterator.toSeq == before.productIterator.toSeq)
  }

  test("what later rules make of it is still it") {
    val after = replaced(operator(streaming = true))
    val again = after.withNewChildren(Seq(ProjectExec(Seq(key), leaf), leaf))
    assert(again.getClass == classOf[DelegatedTransformWithStateInPySpark])
    assert(replaced(again.asInstanceOf[TransformWithStateInPySparkExec]) == again)
  }

  test("an operator of a batch query stays as it is") {
    assert(replaced(operator(streaming = false)).getClass == classOf[TransformWithStateInPySparkExec])
  }

  test("under another provider Spark's check stays") {
    withConf(
      SQLConf.STATE_STORE_PROVIDER_CLASS.key ->
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ) {
      assert(replaced(operator(streaming = true)).getClass == classOf[TransformWithStateInPySparkExec])
    }
  }
}
