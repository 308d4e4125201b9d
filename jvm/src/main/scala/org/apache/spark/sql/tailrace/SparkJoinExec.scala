package org.apache.spark.sql.tailrace

import scala.reflect.ClassTag

import org.apache.hadoop.conf.Configuration
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, StatefulOpClusteredDistribution}
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.state.OperatorStateMetadata
import org.apache.spark.{ContextCleaner, SparkConf, SparkContext}

import sun.reflect.ReflectionFactory

/** Spark's own stream-stream join, for an operator that keeps its state in one store, and joins in its own way.
  *
  * It is extended for one reason: the rules that hand state information and watermarks to an operator know concrete
  * classes only, and call `copy` on them.
  *
  * @param parentContext the context that the parent's constructor sees. Parameters are set before it runs, so
  *                      it broadcasts nothing (see [[UnstartedContext]]).
  */
abstract class SparkJoinExec(parts: JoinParts)(
    @transient private[this] var parentContext: Option[SparkContext]
) extends SparkJoinParent(parts)
    with NoInstanceMetrics {
  parentContext = None

  override protected def sparkContext: SparkContext = parentContext.getOrElse(super.sparkContext)

  /** The places of the keys in the order that rows are spread by. */
  protected def keyOrder: Seq[Int]

  /** An additional expression that both sides are spread by, for which the right side has no value; mostly none. */
  protected def leftSpread: Option[Expression]

  /** Checks the checkpoint when the first batch of a run is planned, before any other method is called. */
  protected def bindCheckpoint(hadoopConf: Configuration, batchId: Long): StateSchemaValidationResult

  // Spark makes copies by the constructor that has its own parameters, one by one. This operator has none.
  private def remade(values: Seq[Any]): SparkPlan = CurrentOrigin.withOrigin(origin) {
    val plan = made(whole(values))
    plan.copyTagsFrom(this)
    plan
  }

  override def makeCopy(values: Array[AnyRef]): SparkPlan =
    if (session == null) remade(values.toSeq) else session.withActive(remade(values.toSeq))

  override def clone(): SparkPlan = remade(productIterator.map {
    case child: SparkPlan => child.clone()
    case other => other
  }.toSeq)

  protected def operatorId: Long = stateInfo.fold(0L)(_.operatorId)

  /** The keys, in words. */
  protected def keyWords: String = OperatorWords.pairs(this, leftKeys, rightKeys)

  override val stateStoreNames: Seq[String] = Seq(StateStoreId.DEFAULT_STORE_NAME)
  override def operatorStateMetadataVersion: Int = 1
  override def operatorStateMetadata(stateSchemaPaths: List[List[String]]): OperatorStateMetadata =
    SparkStores.metadata(getStateInfo, shortName)

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = List(bindCheckpoint(hadoopConf, batchId))

  override def requiredChildDistribution: Seq[Distribution] = {
    // Both sides have as many expressions, as Spark requires of them.
    val more = leftSpread.fold(Seq(Seq.empty[Expression], Seq.empty[Expression])) { spread =>
      Seq(Seq(spread), Seq(Literal(null, spread.dataType)))
    }
    super.requiredChildDistribution.zip(more).map {
      case (byKey: StatefulOpClusteredDistribution, expressions) =>
        byKey.copy(expressions = keyOrder.map(byKey.expressions(_)) ++ expressions)
      case (other, _) => throw new IllegalStateException(s"$nodeName requires $other")
    }
  }

  /** Runs a task for each partition of the state, on the executor that has it. */
  protected def zipped(
      task: (Int, Iterator[InternalRow], Iterator[InternalRow]) => Iterator[InternalRow]
  ): RDD[InternalRow] =
    left
      .execute()
      .stateStoreAwareZipPartitions(
        right.execute(),
        getStateInfo,
        stateStoreNames,
        session.sessionState.streamingQueryManager.stateStoreCoordinator
      )(task)
}

object SparkJoinExec {

  /** The context for the parent's constructor. */
  def forParent: Option[SparkContext] = Some(UnstartedContext.get)

  // The parts of Spark's join that Tailrace's joins don't use.
  val NoCondition: JoinConditionSplitPredicates = JoinConditionSplitPredicates(None, None, None, None)
  val NoPredicates: JoinStateWatermarkPredicates = JoinStateWatermarkPredicates()
}

/** A SparkContext that was never started, for the constructor of Spark's stream-stream join operator only.
  * That constructor broadcasts the Hadoop configuration for each of the nine or ten copies of the operator
  * that planning makes in each batch. Nothing reads these broadcasts, and they took a third of a batch's
  * planning (`adr/002`).
  */
private final class UnstartedContext extends SparkContext(new SparkConf) {
  override def hadoopConfiguration: Configuration = UnstartedContext.NoSettings
  override def broadcast[T: ClassTag](value: T): Broadcast[T] = null

  // The constructor's metrics are real; the cleaner forgets them with the operator.
  override private[spark] def cleaner: Option[ContextCleaner] = SparkContext.getActive.flatMap(_.cleaner)
}

object UnstartedContext {
  private val NoSettings = new Configuration(false)

  /** Made without its constructor, which would start Spark, as deserialization makes objects. */
  val get: SparkContext = {
    val bare = classOf[Object].getDeclaredConstructor()
    ReflectionFactory
      .getReflectionFactory()
      .newConstructorForSerialization(classOf[UnstartedContext], bare)
      .newInstance()
      .asInstanceOf[SparkContext]
  }
}
