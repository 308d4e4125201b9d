package io.tailrace.label

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  And,
  Ascending,
  Attribute,
  EqualTo,
  Expression,
  If,
  IsNull,
  Literal,
  Or,
  SortOrder,
  UnsafeProjection
}
import org.apache.spark.sql.catalyst.plans.LeftAnti
import org.apache.spark.sql.catalyst.plans.logical.{
  EventTimeWatermark,
  Filter,
  Join,
  JoinHint,
  LogicalPlan,
  Project
}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.{BinaryType, DataType}

import io.tailrace.common.{Mark, TailraceConf}
import io.tailrace.driver.ReportExec
import io.tailrace.join.{
  BatchJoinExec,
  BatchesWithoutData,
  IdleTimeout,
  ImportableJoin,
  JoinColumns,
  PinnedSettings,
  StoredJoinExec
}
import io.tailrace.plan.WriteCheck

/** The logical node of `tailrace.join`, for batch and streaming DataFrames.
  *
  * @param paired with how = "inner", the right columns without the keys
  * @param added  the group, the truncation flag and the mark of late rows, as far as asked for
  * @param touch  in a stream, each left row is a right row, too, with this payload; empty: it isn't. A group
  *               then has the left rows of the key around its own one
  * @param kept   left columns that an amended row has beside the keys and the time
  * @param identity a left column, of LONG, that tells left rows of one key and time apart; those that are equal in it,
  *               too, are numbered ([[Twins]]). None: nobody asks which of them a row is
  * @param areImported whether the rows are those of an import, with an additional column on each side
  */
case class LabelJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    leftTime: Attribute,
    rightTime: Attribute,
    settings: JoinSettings,
    paired: Seq[Attribute],
    added: Seq[Attribute],
    touch: Seq[Expression] = Nil,
    kept: Seq[Attribute] = Nil,
    identity: Option[Attribute] = None,
    areImported: Boolean = false
) extends ImportableJoin {
  override def columns: JoinColumns = {
    def own(side: LogicalPlan) = if (areImported) side.output.init else side.output
    super.columns.copy(
      own(left),
      own(right),
      touch = touch,
      kept = kept,
      identity = identity,
      areImported = areImported
    )
  }

  private def stored = StoredLabelJoin(columns, LabelJoinStrategy.streaming(settings))

  override def pinned(columns: JoinColumns): PinnedSettings = stored.pinned(columns)
  override def keptColumns: Option[Set[String]] = stored.keptColumns

  override def amends: Boolean = settings.amendFor.nonEmpty

  /** Silence closes nothing in a micro-batch that reads all there is, and nobody's stream stalls. */
  override def importing(left: LogicalPlan, right: LogicalPlan): LabelJoin = copy(
    left = left,
    right = right,
    settings = settings.copy(idleTimeoutMs = None, streams = None),
    // The rows of an export have the touches already.
    touch = Nil,
    areImported = true
  )

  override def operator: String = "tailrace.join"
  override def idleTimeoutMs: Option[Long] = settings.idleTimeoutMs
  override def writeChecks: Seq[WriteCheck] =
    super.writeChecks ++ settings.idleTimeoutMs.map(_ => IdleTimeout.Check) ++
      Option.when(settings.mayExclude)(BatchesWithoutData("on_stall='exclude'"))
  override def dropsRows: Boolean = !settings.isGrouped
  override def holdsRows: Boolean = settings.isGrouped
  override def description: String =
    if (settings.isGrouped) "a grouped tailrace.join" else "an inner tailrace.join"

  override def rightComesOutAlone: Boolean = settings.hasMarks

  override def rightTimes: Seq[(Attribute, Attribute)] =
    paired.find(_.metadata.contains(EventTimeWatermark.delayKey)).map(_ -> rightTime).toSeq

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): LabelJoin =
    copy(left = newLeft, right = newRight)
}

/** Keeps no state: Spark plans the same node again and again. */
object LabelJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    plan match {
      case join: LabelJoin if join.isStreaming =>
        val settings = streaming(join.settings)
        val stored = StoredLabelJoin(join.columns, settings)
        val exec = StoredJoinExec(stored, join.output, planLater(join.left), planLater(join.right))
        val progress = for (streams <- settings.streams; name <- streams.progress) yield name -> streams
        progress.fold[SparkPlan](exec) { case (name, streams) => reporting(exec, name, streams) } :: Nil
      case join: LabelJoin =>
        val (left, right) = (planLater(join.left), planLater(join.right))
        LabelJoinBatchExec(join.columns, join.settings, join.output, left, right) :: Nil
      case _ => Nil
    }

  /** The settings of a stream. */
  def streaming(settings: JoinSettings): JoinSettings = settings.copy(strategy = strategy(settings))

  private def reporting(exec: StoredJoinExec, name: String, streams: LabelStreams): SparkPlan =
    ReportExec(name, exec) { case join: StoredJoinExec =>
      LabelStreams.row(LabelStreams.of(join, streams).facts)
    }

  /** Pairs are due as soon as both rows are there: eager. Versions of a group are found by what their right rows' times
    * say, which eager matching drops: lazy. So are groups without an excluded stream, amended groups, orphans, and groups of
    * late left rows, whose right rows eager matching has evicted. Groups are due when the window has closed: lazy, which
    * writes and reads each row once. A user sets eager where most right rows match nothing and would wait for the end of a
    * long window (`adr/006`).
    */
  private def strategy(settings: JoinSettings): MatchStrategy =
    if (!settings.isGrouped) MatchStrategy.Eager
    else if (settings.decided) MatchStrategy.Decided
    else if (
      settings.horizons.nonEmpty || settings.amendFor.nonEmpty || settings.orphans || settings.mayExclude ||
      settings.lateImpressions.contains(true)
    )
      MatchStrategy.Lazy
    else {
      val wish = TailraceConf.JoinStrategy.read(SparkPlans.activeSetting)
      MatchStrategy.values.find(_.name == wish).getOrElse(MatchStrategy.Lazy)
    }
}

/** The label join of batch DataFrames. Window, policies and group writer are those of the streaming operator.
  *
  * {{{
  *   left  (A,12:00) (A,12:10) (B,12:00)      right (A,12:05) (A,12:20) (C,12:00)
  *   left A,12:00 -> right rows of A from 12:00 - before to 12:00 + after, held until the key changes
  * }}}
  */
case class LabelJoinBatchExec(
    columns: JoinColumns,
    settings: JoinSettings,
    joinOutput: Seq[Attribute],
    left: SparkPlan,
    right: SparkPlan
) extends BatchJoinExec {
  override def nodeName: String = "TailraceLabelJoinBatch"
  override protected def settingsText: String = settings.text

  /** With one_to_one, the order of rows decides which of them are paired. */
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = {
    val byTime = super.requiredChildOrdering
    if (!settings.oneToOne) byTime
    else
      byTime.zip(Seq(columns.left, columns.payload)).map { case (order, content) =>
        order :+ SortOrder(RowBytes(content), Ascending)
      }
  }

  override protected def newMerge: BatchJoinExec.NewMerge = {
    val (taskColumns, taskSettings) = (columns, settings)
    new BatchMerge(taskColumns, taskSettings, _, _, _)
  }

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): SparkPlan =
    copy(left = newLeft, right = newRight)
}

/** The orphans of batch DataFrames: an anti-join of the right side with the left one. */
private[label] object BatchOrphans {

  /** The rows that are emitted beside those of a join. */
  def of(join: LabelJoin): LogicalPlan = {
    // Both sides are read a second time.
    val (left, right) = (renewed(join.left), renewed(join.right))
    val ids = (join.left.output ++ join.right.output).zip(left.output ++ right.output)
    def now(a: Attribute) = ids.collectFirst { case (was, is) if was.exprId == a.exprId => is }.get
    val again = join.copy(
      left = left,
      right = right,
      leftKeys = join.leftKeys.map(now),
      rightKeys = join.rightKeys.map(now),
      leftTime = now(join.leftTime),
      rightTime = now(join.rightTime)
    )
    val columns = again.columns
    val form = join.settings.form
    val keys = again.leftKeys.zip(again.rightKeys).map { case (l, r) => EqualTo(l, r): Expression }
    val condition = (keys :+ form.isMatch(columns, join.settings.window)).reduce(And(_, _))
    val events = Filter(form.isEvent(columns), right)
    val orphans = Join(events, left, LeftAnti, Some(condition), JoinHint.NONE)
    val isNull = (again.rightKeys :+ again.rightTime).map(IsNull(_): Expression).reduce(Or(_, _))
    val mark = If(isNull, Literal(Mark.NullRight.reason), Literal(Mark.UnmatchedRight.reason))
    val values = new LoneRows(columns, join.settings).rightValues(mark)
    Project(values.zip(join.output).map { case (value, a) => Alias(value, a.name)() }, orphans)
  }

  private def renewed(plan: LogicalPlan): LogicalPlan =
    Project(plan.output.map(a => Alias(a, a.name)(explicitMetadata = Some(a.metadata))), plan)
}

/** The bytes of a row with these columns, by which rows of one key and time are ordered: those that the state of a
  * stream has.
  */
private[label] final case class RowBytes(children: Seq[Expression]) extends Expression with CodegenFallback {
  @transient private lazy val row = UnsafeProjection.create(children)

  override def nullable: Boolean = false
  override def dataType: DataType = BinaryType

  // A copy: the bytes of the projection's row may be its buffer itself, and two rows are compared.
  override def eval(input: InternalRow): Any = row(input).copy().getBytes

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): RowBytes =
    copy(children = newChildren)
}
