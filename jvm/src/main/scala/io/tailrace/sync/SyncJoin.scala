package io.tailrace.sync

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.{ArrayType, MapType, StructType}

import io.tailrace.common.{Errors, Mark, TailraceAnalysisException}
import io.tailrace.join.{JoinColumns, JoinNode, JoinSides, OneEventTime, StoredJoinExec}
import io.tailrace.plan.{Columns, Obstacle, OwnColumns, WriteCheck}

/** The logical node of `tailrace.sync_join`, above a [[SyncProgress]] on each side.
  *
  * @param paired the right columns but the keys, under names of their own
  * @param added  the column `_mark`, if duplicates or rows ahead of the clock are emitted marked
  */
case class SyncJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: SyncSettings,
    paired: Seq[Attribute],
    added: Seq[Attribute]
) extends JoinNode {
  override def operator: String = "tailrace.sync_join"
  override def holdsRows: Boolean = true
  override def description: String = "a tailrace.sync_join"
  override def rightTimes: Seq[(Attribute, Attribute)] = Nil
  override def writeChecks: Seq[WriteCheck] = super.writeChecks :+ SyncJoin.NamesCheck

  override def refusedInRecursion: Option[Obstacle] = Some(
    Obstacle("sync_join", "it waits for partitions of its inputs, and a row that comes round is of none")
  )

  override def rightComesOutAlone: Boolean = settings.rightComesOutAlone

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): SyncJoin =
    copy(left = newLeft, right = newRight)
}

object SyncJoin {

  private val NamesCheck = WriteCheck.uniqueNames("tailrace.sync_join") { case join: SyncJoin =>
    join.settings.name
  }

  /** A right column in the result: no event time, as a right row may be older than left ones that wait. */
  def paired(column: Attribute, name: String): Attribute = {
    val own = OneEventTime.lacking(OneEventTime.unmarked(column))
    AttributeReference(name, own.dataType, own.nullable, own.metadata)()
  }
}

/** Keeps no state: a stream under AQE plans the same node again and again. */
object SyncJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join: SyncJoin =>
      val stored = StoredSyncJoin(join.columns, join.settings)
      StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right)) :: Nil
    case _ => Nil
  }
}

/** Finds the columns that the arguments name, and renames right columns that the left side has, too.
  *
  * @param sides    with keys of equal types
  * @param sameName the session's rule for names, case-insensitive by default
  */
private[tailrace] final class SyncResolution(sides: JoinSides, sameName: (String, String) => Boolean) {

  def resolve(on: Seq[(String, String)], options: SyncOptions): LogicalPlan = {
    SyncSide.values.map(_.name).foreach { side =>
      if (!sides.side(side).isStreaming) throw SyncErrors.notStreaming(side)
    }
    val (leftKeys, rightKeys) = sides.keys(on)
    val (leftTime, rightTime) = sides.times(options.leftTime, options.rightTime)
    val leftPartition = partition(SyncSide.Left.name, options.leftPartition)
    val rightPartition = partition(SyncSide.Right.name, options.rightPartition)
    val chosen = options.settings.copy(
      leftPartition = leftPartition.map(_.name),
      rightPartition = rightPartition.map(_.name)
    )
    val settings = chosen.copy(unlimited = SyncSide.values.flatMap { side =>
      HeldBackSources.obstacle(sides.side(side.name), chosen).map(side -> _)
    })
    if (settings.asksForMaxPending) settings.unlimited.foreach { case (side, source) =>
      throw SyncErrors.maxPendingUnsupported(side.name, source)
    }
    val leftSide = progress(SyncSide.Left, leftPartition, leftTime, settings)
    val rightSide = progress(SyncSide.Right, rightPartition, rightTime, settings)
    val names = newNames(rightKeys, options.suffix)
    val payload = JoinColumns.payload(sides.right.output, rightKeys)
    val join = SyncJoin(
      Synced.of(leftSide, settings),
      rightSide,
      leftKeys,
      rightKeys,
      leftTime,
      rightTime,
      settings,
      payload.map(a => SyncJoin.paired(a, names.getOrElse(a.exprId, a.name))),
      mark(settings, names.values)
    )
    OwnColumns.renewable(join)
  }

  private def progress(
      side: SyncSide,
      columns: Seq[Attribute],
      time: Attribute,
      settings: SyncSettings
  ): LogicalPlan = {
    val plan = sides.side(side.name)
    val isLimited = settings.maxPending.isDefined && !settings.unlimited.exists(_._1 == side)
    val read = if (isLimited) HeldBackSources.wrap(plan, side, settings) else plan
    if (KafkaPartition.isOf(columns.map(_.name)))
      SyncResolution.belowFilters(read, columns :+ time)(SyncProgress(side, columns, time, settings, _))
    else SyncProgress(side, columns, time, settings, read)
  }

  /** By default, Kafka's columns that the side has. */
  private def partition(side: String, names: Seq[String]): Seq[Attribute] = {
    val argument = s"${side}_partition"
    val wanted =
      if (names.nonEmpty) names else KafkaPartition.Columns.filter(sides.columns(side).has)
    if (names.isEmpty && !wanted.contains("partition"))
      throw SyncErrors.partitionMissing(side, argument, sides.side(side).output.map(_.name))
    val found = wanted.map(sides.columns(side).find(argument, _))
    found.foreach { a =>
      a.dataType match {
        case _: ArrayType | _: MapType | _: StructType =>
          throw sides
            .columns(side)
            .wrongType(argument, a, "a simple type, as Kafka's `topic` and `partition`")
        case _ =>
      }
    }
    found
  }

  /** The new names of right columns whose names the left side has, too, as often `created`. */
  private def newNames(keys: Seq[Attribute], suffix: String): Map[ExprId, String] = {
    def isLeft(name: String) = sides.left.output.exists(a => sameName(a.name, name))
    val clashing = JoinColumns.payload(sides.right.output, keys).filter(a => isLeft(a.name))
    clashing.map { a =>
      val name = s"${a.name}$suffix"
      if (isLeft(name)) throw clash(name, "left")
      if (sides.columns("right").has(name)) throw clash(name, "right")
      a.exprId -> name
    }.toMap
  }

  /** The column that marks duplicates and rows ahead of the clock, if some are emitted marked. */
  private def mark(settings: SyncSettings, renamed: Iterable[String]): Seq[Attribute] =
    Option
      .when(settings.marks) {
        val cure = Columns.rename(Mark.Column)
        SyncSide.values.foreach(side => sides.columns(side.name).checkAdded(Mark.Column, cure))
        renamed.find(sameName(_, Mark.Column)).foreach(name => throw clash(name, "right"))
        Mark.attribute()
      }
      .toSeq

  private def clash(column: String, side: String): TailraceAnalysisException =
    Errors.columnExists(
      SyncOptions.arguments.call,
      column,
      s"the $side DataFrame",
      "Rename it, or choose another `suffix` for right columns that the left side has, too."
    )
}

private object SyncResolution {

  /** Rows that the user filters out count, too: a partition whose rows are all filtered is as far as they
    * were. So progress is noted below the lowest filter that has all columns below it. Files and tables
    * filter by themselves; their filters stay below.
    */
  private def belowFilters(plan: LogicalPlan, columns: Seq[Attribute])(
      progress: LogicalPlan => LogicalPlan
  ): LogicalPlan = {
    def has(p: LogicalPlan): Boolean = columns.forall(p.outputSet.contains)
    def isFiltered(p: LogicalPlan): Boolean = p match {
      case f: Filter => has(f.child)
      case other: UnaryNode => passes(other) && isFiltered(other.child)
      case _ => false
    }
    def passes(node: UnaryNode): Boolean = has(node.child) && (node match {
      case _: Project | _: Filter | _: SubqueryAlias | _: EventTimeWatermark => true
      case _ => false
    })
    def below(p: LogicalPlan): LogicalPlan = p match {
      case node: UnaryNode if isFiltered(node) => node.withNewChildren(Seq(below(node.child)))
      case other => progress(other)
    }
    below(plan)
  }
}
