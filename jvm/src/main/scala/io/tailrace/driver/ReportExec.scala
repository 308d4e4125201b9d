package io.tailrace.driver

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.NamedExpression
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.execution.{CodegenSupport, CollectMetricsExec, SparkPlan, UnaryExecNode}

/** Puts a row into the query's progress, under a name in `observedMetrics`. Spark asks the operator of
  * `Dataset.observe` for such rows when a batch has ended, so this extends it. The batch's rows pass
  * unchanged.
  *
  * @param name        in `observedMetrics`
  * @param expressions none: Spark makes copies of its operator with three arguments
  * @param report      makes the row out of the first node, from this one downwards, that it is defined for
  */
final class ReportExec(name: String, expressions: Seq[NamedExpression], child: SparkPlan)(
    @transient report: PartialFunction[SparkPlan, Row]
) extends CollectMetricsExec(name, expressions, child)
    with PassesRows {
  override def nodeName: String = "Report"

  override def collectedMetrics: Row = collectFirst(report).get

  // The parent would reset an accumulator that is not registered.
  override def resetMetrics(): Unit = children.foreach(_.resetMetrics())

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(report)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[ReportExec]
  override def equals(other: Any): Boolean = super.equals(other)
  override def hashCode: Int = super.hashCode
  override protected def withNewChildInternal(newChild: SparkPlan): ReportExec =
    new ReportExec(name, expressions, newChild)(report)
}

object ReportExec {
  def apply(name: String, child: SparkPlan)(report: PartialFunction[SparkPlan, Row]): ReportExec =
    new ReportExec(name, Nil, child)(report)
}

/** An operator that does nothing with rows. In generated code, the operators on its two sides stay in one
  * loop.
  */
trait PassesRows extends UnaryExecNode with CodegenSupport {
  override def supportCodegen: Boolean = child match {
    case producer: CodegenSupport => producer.supportCodegen
    case _ => false
  }

  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()
  override protected def doProduce(ctx: CodegenContext): String =
    child.asInstanceOf[CodegenSupport].produce(ctx, this)
  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String =
    consume(ctx, input)
}
