package io.tailrace.windows

import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.types.{DataType, LongType}

/** The start of the window that a timestamp is in, in microseconds; null for null, and for times that no window is for. */
case class WindowStart(child: Expression, windows: Windows) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def prettyName: String = "window_start"
  override def nullable: Boolean = true
  override def nullIntolerant: Boolean = true

  override protected def nullSafeEval(time: Any): Any = {
    val micros = time.asInstanceOf[Long]
    if (windows.lands(micros)) windows.start(micros) else null
  }

  override protected def doGenCode(context: CodegenContext, ev: ExprCode): ExprCode = {
    val of = context.addReferenceObj("windows", windows)
    nullSafeCodeGen(
      context,
      ev,
      time => s"if ($of.lands($time)) ${ev.value} = $of.start($time); else ${ev.isNull} = true;"
    )
  }

  override protected def withNewChildInternal(newChild: Expression): WindowStart = copy(child = newChild)
}
