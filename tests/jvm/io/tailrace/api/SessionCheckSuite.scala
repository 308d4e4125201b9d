package io.tailrace.api

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}

import io.tailrace.TailraceExtensions
import io.tailrace.label.LabelJoinStrategy
import io.tailrace.testkit.SparkSuite

class SessionCheckSuite extends SparkSuite {
  test("a session with the extension passes") {
    SessionCheck.check(spark)
    PythonApi.checkSession(spark)
  }

  test("a session without the extension is refused") {
    checkRefused("TAILRACE_SESSION_EXTENSION_MISSING") {
      PythonApi.checkSession(session(new SparkSessionExtensions))
    }
  }

  test("the jar on the class path is enough: the service registers the extension") {
    val extensions = new SparkSessionExtensions
    java.util.ServiceLoader.load(classOf[SparkSessionExtensionsProvider]).forEach(_(extensions))
    PythonApi.checkSession(session(extensions))
  }

  test("the extension is applied once where both the service file and the settings name it") {
    assert(spark.conf.get("spark.sql.extensions") == classOf[TailraceExtensions].getName)
    val strategies = spark.sessionState.planner.strategies
    assert(strategies.count(_ == LabelJoinStrategy) == 1)
    val ours = strategies.map(_.getClass.getName).filter(_.startsWith("io.tailrace."))
    assert(ours.size == 12 && ours == ours.distinct)
  }

  /** Made by the constructor: every other way to a session finds the service file on this class path. */
  private def session(extensions: SparkSessionExtensions): SparkSession =
    classOf[SparkSession].getConstructors
      .find(_.getParameterCount == 6)
      .get
      .newInstance(spark.sparkContext, None, None, extensions, Map.empty, Map.empty)
      .asInstanceOf[SparkSession]
}
