package io.tailrace.testkit

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException}
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** A suite on the one Spark session of the JVM, which is set up as a user's: extension and files. */
abstract class SparkSuite extends AnyFunSuite with BeforeAndAfterEach {
  protected lazy val spark: SparkSession = SparkSuite.session

  override def tags: Map[String, Set[String]] = Tags.added(this, super.tags, UsesSession)

  override protected def afterEach(): Unit = {
    try spark.streams.active.foreach(_.stop())
    finally super.afterEach()
  }

  /** Settings of the session for the time of `body`. */
  protected def withConf[T](settings: (String, Any)*)(body: => T): T = {
    val before = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value.toString) }
    try body
    finally
      before.foreach {
        case (key, Some(value)) => spark.conf.set(key, value)
        case (key, None) => spark.conf.unset(key)
      }
  }

  protected def withDirectory[T](body: File => T): T = {
    val directory = Files.createTempDirectory("tailrace-test-")
    try body(directory.toFile)
    finally {
      spark.streams.active.foreach(_.stop())
      TempDirectory.delete(directory)
    }
  }

  /** With a directory, and with a clock for queries that the test moves. */
  protected def withClock[T](body: (File, ManualClock) => T): T = withDirectory(body(_, new ManualClock))

  /** Runs `body`, which must be refused under `condition` with exactly these parameters. */
  protected def checkRefused(condition: String, parameters: (String, String)*)(body: => Any): Unit = {
    val e = intercept[TailraceAnalysisException](body)
    assert(e.getCondition == condition)
    assert(e.getMessageParameters.asScala.toMap == parameters.toMap)
  }

  /** The condition and its parameters that ended a query, wherever in the chain of causes it stands. */
  protected def failureOf(query: StreamingQuery): (String, Map[String, String]) = {
    val e = intercept[StreamingQueryException](query.processAllAvailable())
    val causes = Iterator.iterate[Throwable](e)(_.getCause).takeWhile(_ != null).toSeq
    causes
      .collectFirst {
        case t: TailraceAnalysisException => t.getCondition -> t.getMessageParameters.asScala.toMap
        case t: TailraceStateException => t.getCondition -> t.getMessageParameters.asScala.toMap
      }
      .getOrElse(fail(s"no condition of Tailrace in ${causes.map(_.toString.take(300))}"))
  }
}

object SparkSuite {
  lazy val session: SparkSession = SparkSession
    .builder()
    .master("local[2]")
    .appName("tailrace tests")
    .config("spark.sql.extensions", "io.tailrace.TailraceExtensions")
    // Spark's own way on a local disk starts a process or two for each file: that was half of the suites' time.
    .config("spark.sql.streaming.checkpointFileManagerClass", "io.tailrace.checkpoint.TailraceFileManager")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.ui.enabled", "false")
    // To compile code for each query was a third of the suites' time. Generated code runs in the suites that ask for it, and
    // in the processes that campaigns start.
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    .config("spark.sql.warehouse.dir", Files.createTempDirectory("tailrace-warehouse-").toString)
    .getOrCreate()
    .asInstanceOf[SparkSession]
}
