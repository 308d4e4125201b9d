package io.tailrace.recursion

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.execution.{InputRDDCodegen, LeafExecNode}

/** What op is given as its argument. Its plan is made with this in it, once, and is put to use with something else in its
  * place: rows of a generation in a task, or the input together with the feedback log.
  *
  * @param id tells recursions apart; a frame that op uses twice is in the plan twice, each with columns of its own
  */
final case class RecursionArgument(
    id: Long,
    output: Seq[AttributeReference],
    override val isStreaming: Boolean
) extends LeafNode
    with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  // So that a join never broadcasts this side of it.
  override def computeStats(): Statistics = Statistics(BigInt(Long.MaxValue))

  override def simpleString(maxFields: Int): String = s"RecursionArgument ${output.mkString("[", ", ", "]")}"
}

/** The argument, with rows in it. */
final case class ArgumentRows(output: Seq[Attribute], rows: RDD[InternalRow]) extends LeafNode {
  override def computeStats(): Statistics = Statistics(BigInt(Long.MaxValue))
}

/** Rows are unsafe rows already. */
final case class ArgumentRowsExec(output: Seq[Attribute], inputRDD: RDD[InternalRow])
    extends LeafExecNode
    with InputRDDCodegen {
  override protected val createUnsafeProjection: Boolean = false
  override def nodeName: String = "RecursionArgument"
  override protected def doExecute(): RDD[InternalRow] = inputRDD
}
