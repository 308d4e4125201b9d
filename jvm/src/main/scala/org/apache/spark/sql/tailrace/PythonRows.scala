package org.apache.spark.sql.tailrace

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.api.python.SerDeUtil
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.python.EvaluatePython
import org.apache.spark.sql.types.StructType

import net.razorvine.pickle.Unpickler

/** Rows that Python has pickled, as PySpark sends those of a DataFrame that is made of a list. */
object PythonRows {

  /** @param pickled a list of tuples, whose values `StructType.toInternal` has made */
  def read(pickled: Array[Byte], schema: StructType): Seq[UnsafeRow] = {
    SerDeUtil.initialize()
    EvaluatePython.registerPicklers()
    val converted = EvaluatePython.makeFromJava(schema)
    val projection = UnsafeProjection.create(schema)
    val rows = new Unpickler().loads(pickled).asInstanceOf[util.List[Object]].asScala.toSeq
    rows.map(row => projection(converted(row).asInstanceOf[InternalRow]).copy())
  }
}
