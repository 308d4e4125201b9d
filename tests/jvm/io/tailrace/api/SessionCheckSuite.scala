package io.tailrace.api

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.classic.SparkSession

import io.tailrace.testkit.SparkSuite

class SessionCheckSuite extends SparkSuite {
  test("a session as it should be") {
    SessionCheck.check(spark)
    PythonApi.checkSession(spark)
  }

  test("a session without the extension is refused") {
    // Every ordinary way to a session finds the service file on this class path.
    val bare = classOf[SparkSession].getConstructors
      .find(_.getParameterCount == 6)
      .get
      .newInstance(spark.sparkContext, None, None, new SparkSessionExtensions, Map.empty, Map.empty)
      .asInstanceOf[SparkSession]
    checkRefused("TAILRACE_SESSION_EXTENSION_MISSING")(PythonApi.checkSession(bare))
  }

  test("the jar on the class path is enough: the service registers the extension") {
    val found = java.util.ServiceLoader.load(classOf[org.apache.spark.sql.SparkSessionExtensionsProvider])
    assert(found.iterator.hasNext)
    val extensions = new SparkSessionExtensions
    found.iterator.next()(extensions)
    assert(spark.newSession().sessionState.planner.strategies.contains(io.tailrace.label.LabelJoinStrategy))
  }
}
