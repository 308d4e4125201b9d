package org.apache.spark.sql.tailrace

import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.{ContextCleaner, SparkConf, SparkContext}

import sun.reflect.ReflectionFactory

/** A SparkContext that was never started, for the constructor of Spark's stream-stream join operator only.
  * That constructor broadcasts the Hadoop configuration for each of the nine or ten copies of the operator
  * that planning makes in each batch. Nobody reads these broadcasts, and they took a third of a batch's
  * planning (`adr/002`).
  */
private final class UnstartedContext extends SparkContext(new SparkConf) {
  override def hadoopConfiguration: Configuration = UnstartedContext.NoSettings
  override def broadcast[T: ClassTag](value: T): Broadcast[T] = null

  // The constructor's metrics are real; the cleaner forgets them with the operator.
  override private[spark] def cleaner: Option[ContextCleaner] = SparkContext.getActive.flatMap(_.cleaner)
}

object UnstartedContext {
  private val NoSettings = new Configuration(false)

  /** Made without its constructor, which would start Spark, as deserialization makes objects. */
  val get: SparkContext = {
    val bare = classOf[Object].getDeclaredConstructor()
    ReflectionFactory
      .getReflectionFactory()
      .newConstructorForSerialization(classOf[UnstartedContext], bare)
      .newInstance()
      .asInstanceOf[SparkContext]
  }
}
