package org.apache.spark.sql.tailrace

import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.{ContextCleaner, SparkConf, SparkContext}

import sun.reflect.ReflectionFactory

/** A SparkContext that was never started, for the constructor of Spark's stream-stream join exec and nobody else. That
  * constructor broadcasts the Hadoop configuration, with each of the nine or ten copies that planning makes of the
  * operator in each batch; a broadcast nobody reads, for Tailrace's operator makes its own. It was a third of a
  * batch's planning (`adr/002`).
  */
private final class UnstartedContext extends SparkContext(new SparkConf) {
  override def hadoopConfiguration: Configuration = UnstartedContext.NoSettings
  override def broadcast[T: ClassTag](value: T): Broadcast[T] = null

  // The metrics that the constructor makes are real, and forgotten with the operator.
  override private[spark] def cleaner: Option[ContextCleaner] = SparkContext.getActive.flatMap(_.cleaner)
}

object UnstartedContext {
  private val NoSettings = new Configuration(false)

  /** Made as deserialisation makes objects, without its constructor, which would start Spark. */
  val get: SparkContext = {
    val bare = classOf[Object].getDeclaredConstructor()
    ReflectionFactory
      .getReflectionFactory()
      .newConstructorForSerialization(classOf[UnstartedContext], bare)
      .newInstance()
      .asInstanceOf[SparkContext]
  }
}
