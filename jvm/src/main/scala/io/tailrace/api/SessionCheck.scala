package io.tailrace.api

import java.util.Properties

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession => ClassicSession}

import io.tailrace.common.{Errors, TailraceConf}
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

  /** @return the session */
  def check(session: SparkSession): ClassicSession = {
    def minor(version: String) = version.split('.').take(2).mkString(".")
    if (minor(SPARK_VERSION) != minor(builtForSpark)) {
      throw Errors.sparkVersionMismatch(minor(builtForSpark), minor(SPARK_VERSION))
    }
    val classic = session.asInstanceOf[ClassicSession]
    if (!SparkPlans.hasStrategy(classic, LabelJoinStrategy)) throw Errors.extensionMissing()
    TailraceConf.checkKeys(SparkPlans.settingKeys(classic))
    classic
  }
}
