package io.tailrace.landing

import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.types.{DataType, LongType}

/** The start of the window that a timestamp is in, in microseconds; null for null. */
case class WindowStart(child: Expression, windows: Windows) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def prettyName: String = "window_start"
  override def nullIntolerant: Boolean = true

  override protected def nullSafeEval(time: Any): Any = windows.start(time.asInstanceOf[Long])

  override protected def doGenCode(context: CodegenContext, ev: ExprCode): ExprCode = {
    val of = context.addReferenceObj("windows", windows)
    nullSafeCodeGen(context, ev, time => s"${ev.value} = $of.start($time);")
  }

  override protected def withNewChildInternal(newChild: Expression): WindowStart = copy(child = newChild)
}
