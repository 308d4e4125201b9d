package io.tailrace.testkit

import org.apache.spark.sql.SparkSession

/** Spark for suites that need a SparkEnv and no queries: local directories, state store coordinator. It is the session of all
  * suites ([[SparkSuite]]): a JVM has one, and the first suite that made another would decide on the settings of the others.
  */
object LocalSpark {
  lazy val session: SparkSession = {
    val spark = SparkSuite.session
    // Starts the coordinator that commits are reported to.
    spark.streams
    spark
  }
}
