package io.tailrace.testkit

import org.apache.spark.sql.SparkSession

/** One small Spark for all suites that need a SparkEnv: local directories, state store coordinator. */
object LocalSpark {
  lazy val session: SparkSession = {
    val spark = SparkSession
      .builder()
      .master("local[1]")
      .appName("tailrace tests")
      .config("spark.ui.enabled", "false")
      .getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    // Starts the coordinator that commits are reported to.
    spark.streams
    spark
  }
}
