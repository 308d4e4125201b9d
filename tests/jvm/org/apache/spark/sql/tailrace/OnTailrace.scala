package org.apache.spark.sql.tailrace

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.StaticSQLConf
import org.apache.spark.sql.streaming.StreamTest

import io.tailrace.TailraceExtensions
import io.tailrace.label.LabelJoinStrategy

/** A suite of Spark's about streaming queries, in a session with Tailrace's extension: it must still pass. */
trait OnTailrace extends StreamTest with ShortByDefault {
  override protected def sparkConf: SparkConf =
    super.sparkConf.set(StaticSQLConf.SPARK_SESSION_EXTENSIONS, Seq(classOf[TailraceExtensions].getName))

  test(OnTailrace.Check) {
    assert(SparkPlans.hasStrategy(spark, LabelJoinStrategy))
  }
}

object OnTailrace {
  val Check = "the session has Tailrace's extension"
}
