package io.tailrace.connect

import java.lang.invoke.MethodType
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

  /** True if it gives a DataFrame. */
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
    val fitting = arguments.zip(method.getParameterTypes).zipWithIndex.map { case ((argument, kind), i) =>
      fitted(argument, kind).getOrElse {
        val found = if (argument == null) "null" else argument.getClass.getSimpleName
        throw ConnectErrors.callUnknown(
          s"${method.getName} with $found as argument ${i + 1}, which is ${kind.getSimpleName}"
        )
      }
    }
    try method.invoke(of, fitting: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
  }

  /** An argument as a method takes it; none if it can't. A client of another version sends such ones. */
  private def fitted(argument: AnyRef, kind: Class[_]): Option[AnyRef] = argument match {
    case null => Option.when(!kind.isPrimitive)(null)
    case number: java.lang.Long if kind == classOf[Int] =>
      Option.when(number.toLong.isValidInt)(Int.box(number.intValue))
    case other => Option.when(MethodType.methodType(kind).wrap.returnType.isInstance(other))(other)
  }
}
