package io.tailrace.testkit

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.{Level, LogManager}

/** What a class warns of. */
object Warnings {

  /** @param logger its name
    * @return the messages of the warnings that come while `body` runs
    */
  def of(logger: String)(body: => Unit): Seq[String] = {
    val told = new ConcurrentLinkedQueue[String]
    val appender =
      new AbstractAppender(s"warnings of $logger", null, null, false, Property.EMPTY_ARRAY) {
        override def append(event: LogEvent): Unit =
          if (event.getLevel == Level.WARN) told.add(event.getMessage.getFormattedMessage): Unit
      }
    val log = LogManager.getLogger(logger).asInstanceOf[Logger]
    val before = log.getLevel
    appender.start()
    log.addAppender(appender)
    log.setLevel(Level.WARN)
    try body
    finally {
      log.removeAppender(appender)
      log.setLevel(before)
      appender.stop()
    }
    told.asScala.toSeq
  }
}
