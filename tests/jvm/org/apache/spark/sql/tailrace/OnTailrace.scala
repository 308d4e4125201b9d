package org.apache.spark.sql.tailrace

import scala.collection.mutable

import org.apache.spark.SparkConf
import org.apache.spark.sql.Dataset
import org.apache.spark.sql.execution.streaming.sources.MemorySink
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.streaming.{OutputMode, StreamTest}
import org.scalatest.PrivateMethodTester

import io.tailrace.TailraceExtensions
import io.tailrace.label.LabelJoinStrategy
import io.tailrace.state.TailraceStateStoreProvider

/** A suite of Spark's about streaming queries, in a session with Tailrace's extension and provider. Where the suite asks
  * for Spark's RocksDB provider it gets ours, which is to make no difference.
  */
trait OnTailrace extends StreamTest with ShortByDefault with PrivateMethodTester {
  private val providers = mutable.Set[Class[_]]()

  override protected def sparkConf: SparkConf = super.sparkConf
    .set(StaticSQLConf.SPARK_SESSION_EXTENSIONS, Seq(classOf[TailraceExtensions].getName))
    .set(SQLConf.STATE_STORE_PROVIDER_CLASS, classOf[TailraceStateStoreProvider].getName)

  override protected def withSQLConf[T](pairs: (String, String)*)(body: => T): T =
    super.withSQLConf(pairs.map(onOurs): _*)(body)

  private def onOurs(pair: (String, String)): (String, String) = {
    val sparks = SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[RocksDBStateStoreProvider].getName
    val ours = SQLConf.STATE_STORE_PROVIDER_CLASS.key -> classOf[TailraceStateStoreProvider].getName
    if (pair == sparks) ours else pair
  }

  // Providers are unloaded at the end. While a query waits for data they can be looked at without holding it up.
  override def testStream(
      stream: Dataset[_],
      mode: OutputMode,
      options: Map[String, String],
      sink: MemorySink
  )(
      actions: StreamAction*
  ): Unit = {
    val look = Execute("look at the providers")(_ => providers ++= loadedProviders)
    super.testStream(stream, mode, options, sink)(actions.flatMap {
      case check @ (_: CheckAnswerRows | _: CheckAnswerRowsByFunc | _: CheckNewAnswerRows) => Seq(check, look)
      case start: StartStream => Seq(start.copy(additionalConfs = start.additionalConfs.map(onOurs)))
      case other => Seq(other)
    }: _*)
  }

  private def loadedProviders: Set[Class[_]] = {
    val method =
      PrivateMethod[mutable.Map[StateStoreProviderId, StateStoreProvider]](Symbol("loadedProviders"))
    val loaded = StateStore.invokePrivate(method())
    loaded.synchronized(loaded.values.map(_.getClass: Class[_]).toSet)
  }

  // Registered last: by then all others have run.
  test(OnTailrace.Check) {
    assert(SparkPlans.hasStrategy(spark, LabelJoinStrategy))
    assert(providers == Set[Class[_]](classOf[TailraceStateStoreProvider]))
  }
}

object OnTailrace {
  val Check = "all stores of the suite were Tailrace's"
}
