package org.apache.spark.sql.tailrace

import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.sql.execution.streaming.runtime
import org.apache.spark.sql.{Encoder, SparkSession => AnySession}

/** Spark's source of rows in memory. Minor versions of Spark make it in different ways. */
object MemoryStream {
  type Of[A] = runtime.MemoryStream[A]

  private val ids = new AtomicInteger

  def apply[A: Encoder](spark: AnySession): Of[A] = make(spark, None)

  def apply[A: Encoder](spark: AnySession, partitions: Int): Of[A] = make(spark, Some(partitions))

  private def make[A: Encoder](spark: AnySession, partitions: Option[Int]): Of[A] =
    new runtime.MemoryStream[A](ids.getAndIncrement(), spark, partitions)
}
