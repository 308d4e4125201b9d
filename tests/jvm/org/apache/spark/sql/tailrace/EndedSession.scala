package org.apache.spark.sql.tailrace

import org.apache.spark.sql.connect.service.{SessionHolder, SparkListenerConnectSessionClosed}

/** What Spark says when a session of Spark Connect has ended. */
object EndedSession {
  def tell(session: SessionHolder): Unit = {
    val bus = session.session.sparkContext.listenerBus
    bus.post(SparkListenerConnectSessionClosed(session.sessionId, session.userId, 0))
    bus.waitUntilEmpty()
  }
}
