package io.tailrace.connect

import java.lang.reflect.{InvocationTargetException, Method}

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.api.PythonApi

/** What a client may call: the methods of [[PythonApi]]. */
private[connect] object ConnectMethods {
  private val methods: Map[String, Method] = PythonApi.getClass.getMethods.toSeq
    // Scala's own have a $ in their names.
    .filter(method => method.getDeclaringClass != classOf[Object] && !method.getName.contains('$'))
    .map(method => method.getName -> method)
    .toMap

  /** Whether it gives a DataFrame. */
  def plans(method: String): Boolean = classOf[Dataset[_]].isAssignableFrom(found(method).getReturnType)

  /** A method that isn't there is of a later client. */
  private def found(method: String): Method =
    methods.getOrElse(method, throw ConnectErrors.callUnknown(method))

  def plan(method: String, arguments: Seq[AnyRef]): LogicalPlan =
    SparkPlans.analyzed(value(method, arguments).asInstanceOf[Dataset[_]])

  def value(method: String, arguments: Seq[AnyRef]): AnyRef = invoke(PythonApi, found(method), arguments)

  /** Calls a method of an object. Whole numbers are as long as it takes them. */
  def invoke(of: AnyRef, method: Method, arguments: Seq[AnyRef]): AnyRef = {
    if (arguments.size != method.getParameterCount)
      throw ConnectErrors.callUnknown(s"${method.getName} with ${arguments.size} arguments")
    val fitting = arguments.zip(method.getParameterTypes).map {
      case (number: java.lang.Long, kind) if kind == classOf[Int] => Int.box(Math.toIntExact(number))
      case (other, _) => other
    }
    try method.invoke(of, fitting: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
  }
}
