package io.tailrace.api

import java.util.Properties

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.SparkPlans

import io.tailrace.common.Errors
import io.tailrace.label.LabelJoinStrategy

/** Checks that a session has all that Tailrace's operators need. */
private[api] object SessionCheck {
  private val build: Properties = {
    val properties = new Properties
    val in = getClass.getResourceAsStream("/tailrace-build.properties")
    try properties.load(in)
    finally in.close()
    properties
  }

  def tailraceVersion: String = build.getProperty("tailrace")
  def builtForSpark: String = build.getProperty("spark")

  def check(session: SparkSession): Unit = {
    def minor(version: String) = version.split('.').take(2).mkString(".")
    if (minor(SPARK_VERSION) != minor(builtForSpark)) {
      throw Errors.sparkVersionMismatch(minor(builtForSpark), minor(SPARK_VERSION))
    }
    if (!SparkPlans.hasStrategy(session, LabelJoinStrategy)) throw Errors.extensionMissing()
  }
}
