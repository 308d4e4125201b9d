package io.tailrace.recursion

import java.util.concurrent.atomic.AtomicLong
import java.util.{Locale, UUID}

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.tailrace.{SparkPlans, StreamInputs}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Mark, Policy}
import io.tailrace.plan.{Columns, Obstacle, StreamJoin}

/** One call of `recursively`, in two halves. Op is called between them: Python calls it itself.
  *
  * @param givenId of the argument, below zero. Over Spark Connect each half is a call of its own, and both have the
  *                client's; none: a new one
  */
final class RecursionCall private[tailrace] (
    frame: Dataset[_],
    options: RecursionOptions,
    givenId: Option[Long] = None
) {
  private val session = SparkPlans.session(frame)
  private val input = SparkPlans.analyzed(frame)
  private val sameName = session.sessionState.conf.resolver
  private val settings = options.settings
  private val wantedMode = options.wantedMode
  private val columns = new Columns(RecursionOptions.arguments, input.output, sameName)
  private val keys = options.pathColumns.map(key)
  private val leaf = RecursionArgument(
    givenId.getOrElse(RecursionCall.ids.incrementAndGet()),
    input.output.map(RecursionArgument.columnLike),
    input.isStreaming
  )
  private val rules = new OpRules(leaf.id)

  checkAddedColumns()

  /** The DataFrame that op is called with. */
  val argument: DataFrame = SparkPlans.toFrame(session, leaf)

  /** @param of op's result for [[argument]]
    * @return all results of the input's rows
    */
  def result(of: Dataset[_]): DataFrame = {
    val op = SparkPlans.analyzed(of)
    check(op)
    val resolution = new RecursionResolution(input, op, leaf, rules, settings, keys, options.depthColumn)
    val plan = chosen(op) match {
      case RecursionMode.Fixpoint => resolution.fixpoint()
      case RecursionMode.Feedback =>
        rules.refusedByMicroBatch(op).foreach(refuse)
        new HeldBack(rules, leaf)
          .in(op)
          .foreach(held => throw RecursionErrors.heldBack(settings.name, held.operator, held.reason))
        resolution.feedback()
    }
    SparkPlans.toFrame(session, plan)
  }

  private def check(op: LogicalPlan): Unit = {
    checkSchema(op)
    if (rules.isInSubquery(op))
      refuse(Obstacle("a subquery over its argument", "what it gives isn't known by row"))
    if (!rules.usesArgument(op)) throw RecursionErrors.argumentUnused(settings.name)
    if (rules.isNested(op)) throw RecursionErrors.nested(settings.name)
    rules.refused(op).foreach(refuse)
    val optimized = SparkPlans.optimized(session, op)
    if (rules.isIdentity(op) || rules.isIdentity(optimized)) throw RecursionErrors.identity(settings.name)
    // The optimizer may see that op gives no row at all: then it ends.
    if (rules.isEndless(op) || (rules.usesArgument(optimized) && rules.isEndless(optimized)))
      throw RecursionErrors.endless(settings.name)
  }

  private def refuse(obstacle: Obstacle): Nothing =
    throw RecursionErrors.operator(settings.name, obstacle.operator, obstacle.reason)

  private def checkSchema(op: LogicalPlan): Unit = {
    val differences = leaf.output.zipAll(op.output, null, null).zipWithIndex.collect {
      case ((null, more), i) => s"column ${i + 1}, ${more.name}, is one too many"
      case ((wanted, null), i) => s"column ${i + 1}, ${wanted.name}, is missing"
      case ((wanted, found), i) if !sameName(wanted.name, found.name) =>
        s"column ${i + 1} is called ${found.name}, and ${wanted.name} in the argument"
      case ((wanted, found), _) if SparkPlans.nullable(found.dataType) != wanted.dataType =>
        s"${found.name} is ${found.dataType.sql}, and ${wanted.dataType.sql} in the argument"
    }
    if (differences.nonEmpty) throw RecursionErrors.schema(settings.name, differences)
  }

  private def chosen(op: LogicalPlan): RecursionMode = {
    def impossible(mode: RecursionMode, reason: String): Nothing =
      throw RecursionErrors.mode(settings.name, mode.name, reason)
    val obstacle = rules.needsState(op)
    val mode = wantedMode.getOrElse {
      if (obstacle.isEmpty) RecursionMode.Fixpoint
      else if (input.isStreaming) RecursionMode.Feedback
      else refuse(obstacle.get)
    }
    mode match {
      case RecursionMode.Fixpoint =>
        obstacle.foreach(o => impossible(mode, s"${o.operator} in op: ${o.reason}"))
      case RecursionMode.Feedback =>
        if (!input.isStreaming) impossible(mode, "a batch frame has no micro-batches")
    }
    mode
  }

  /** The ordinal of a column of the DataFrame. */
  private def key(name: String): Int = {
    val column = columns.find("path_columns", name)
    if (!RowOrdering.isOrderable(column.dataType))
      throw columns.wrongType("path_columns", column, "a type whose values can be compared")
    input.output.indexOf(column)
  }

  private def checkAddedColumns(): Unit = {
    val own = RecursionResolution.addedColumns(settings, keys.nonEmpty)
    own.foreach(name => columns.checkAdded(name, Columns.rename(name)))
    options.depthColumn.foreach { name =>
      val otherName = "The column of the depth takes another name with `depth_column`."
      columns.checkAdded(name, s"${Columns.rename(name)} $otherName")
      if (own.exists(sameName(_, name)))
        throw RecursionOptions.arguments.invalid("depth_column", name, "a name that no other column has")
    }
  }
}

private object RecursionCall {
  private val ids = new AtomicLong
}

/** Finds operators of op that keep rows and give them out when the watermark has reached them. Such a row
  * is fed back late, and an operator with state drops it. The watermark can't be held for rows that wait,
  * because they often wait for the watermark itself.
  *
  * A pair of an inner join is emitted when the later of its rows arrives. So it is on time if it has the later
  * of the two times: each event time of the result has to be at least each side's:
  *
  * {{{
  *   greatest(at, linked) AS at                    of both
  *   linked AS at, joined on linked >= at          of both
  *   at                                            of one side only: refused
  * }}}
  */
final class HeldBack(rules: OpRules, argument: RecursionArgument) {
  import HeldBack._

  /** @param op resolved, with the argument's columns
    * @return none if all rows of op are on time, as far as the plan tells
    */
  def in(op: LogicalPlan): Option[Obstacle] =
    argument.output.indices
      .filter(i => isTime(argument.output(i)))
      .flatMap(i => find(op, Set(op.output(i).exprId)))
      .headOption

  /** @param least columns of `plan` that the result's time is at least */
  private def find(plan: LogicalPlan, least: Set[ExprId]): Option[Obstacle] =
    if (!rules.usesArgument(plan) || rules.isArgument(plan)) None
    else
      holds(plan).orElse {
        val inputs = below(plan, least)
        if (!joinsStreams(plan) || inputs.forall { case (side, of) => isOnTime(side, of) })
          inputs.flatMap { case (input, of) => find(input, of) }.headOption
        else Some(Obstacle(name(plan), Older))
      }

  private def holds(plan: LogicalPlan): Option[Obstacle] = plan match {
    case join: Join if joinsStreams(join) && join.joinType != Inner => Some(Obstacle(name(join), Passed))
    case join: StreamJoin if join.holdsRows => Some(Obstacle(name(join), Passed))
    case _: Aggregate => Some(Obstacle("an aggregation", Passed))
    case node if isByTime(node) => Some(Obstacle(s"${node.nodeName} with event time", Passed))
    case _ => None
  }
}

private object HeldBack {
  private val Older = "its pairs go round with a time that may be older than one of their two rows"
  private val Passed = "it gives rows out when the watermark has reached their time"

  private def isTime(column: Attribute): Boolean = column.metadata.contains(EventTimeWatermark.delayKey)

  private def joinsStreams(plan: LogicalPlan): Boolean = plan match {
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => plan.isInstanceOf[StreamJoin]
  }

  private def name(plan: LogicalPlan): String = plan match {
    case join: StreamJoin => join.description
    case join: Join =>
      s"${if (join.joinType == Inner) "an" else "a"} ${join.joinType.sql.toLowerCase(Locale.ROOT)} join of two streams"
    case other => other.nodeName
  }

  /** True if one of these columns is an event time of each streaming input: then the value isn't older than
    * the rows that it is made of.
    */
  private def isOnTime(plan: LogicalPlan, least: Set[ExprId]): Boolean =
    plan.output.exists(a => isTime(a) && least(a.exprId)) || {
      val inputs = below(plan, least).filter(_._1.isStreaming)
      inputs.nonEmpty && inputs.forall { case (input, of) => isOnTime(input, of) }
    }

  /** The inputs of a node. With each, those of its columns that a value is at least, if it is at least the
    * columns `least` of the node.
    */
  private def below(plan: LogicalPlan, least: Set[ExprId]): Seq[(LogicalPlan, Set[ExprId])] = {
    def seen(children: Seq[LogicalPlan], columns: Set[ExprId]) =
      children.map(child => child -> columns.intersect(child.output.map(_.exprId).toSet))
    plan match {
      case Project(list, child) =>
        seen(Seq(child), list.filter(named => least(named.exprId)).flatMap(atLeast).toSet)
      case Filter(condition, child) => seen(Seq(child), closed(least, Some(condition)))
      case join: Join => seen(join.children, closed(least, join.condition))
      case join: StreamJoin =>
        // The sides may share column ids. Only the right columns that are paired are emitted.
        val right = join.rightTimes.collect { case (out, time) if least(out.exprId) => time.exprId }
        seen(Seq(join.left), least) ++ seen(Seq(join.right), right.toSet)
      case union: Union =>
        val ordinals = union.output.indices.filter(i => least(union.output(i).exprId))
        union.children.map(child => child -> ordinals.map(child.output(_).exprId).toSet)
      case other => seen(other.children, least)
    }
  }

  private def isByTime(node: LogicalPlan): Boolean = {
    val mode = node match {
      case groups: FlatMapGroupsWithState => Some(groups.timeout)
      case groups: FlatMapGroupsInPandasWithState => Some(groups.timeout)
      case groups: TransformWithState => Some(groups.timeMode)
      case groups: TransformWithStateInPySpark => Some(groups.timeMode)
      case _ => None
    }
    mode.exists(_.toString.contains("EventTime"))
  }

  /** The columns that a value is at least, of those in its expression. */
  private def atLeast(value: Expression): Seq[ExprId] = value match {
    case column: Attribute => Seq(column.exprId)
    case Alias(child, _) => atLeast(child)
    case Greatest(children) => children.flatMap(atLeast)
    case _ => Nil
  }

  /** These columns, and those that they are at least by a condition. */
  private def closed(least: Set[ExprId], condition: Option[Expression]): Set[ExprId] = {
    val conjuncts = condition.toSeq.flatMap(conjunctsOf)
    val more = least ++ conjuncts.collect {
      case GreaterThanOrEqual(a: Attribute, b: Attribute) if least(a.exprId) => b.exprId
      case GreaterThan(a: Attribute, b: Attribute) if least(a.exprId) => b.exprId
      case LessThanOrEqual(b: Attribute, a: Attribute) if least(a.exprId) => b.exprId
      case LessThan(b: Attribute, a: Attribute) if least(a.exprId) => b.exprId
      case EqualTo(a: Attribute, b: Attribute) if least(a.exprId) => b.exprId
      case EqualTo(b: Attribute, a: Attribute) if least(a.exprId) => b.exprId
    }
    if (more == least) least else closed(more, condition)
  }

  private def conjunctsOf(condition: Expression): Seq[Expression] = condition match {
    case And(a, b) => conjunctsOf(a) ++ conjunctsOf(b)
    case other => Seq(other)
  }
}

/** Makes the plan of a recursion from the plans of its input and its op. The rows that are fed back have
  * the user's columns, followed by the recursion's own: the hop, the keys that led to the row, and whether the
  * last of them occurs twice. [[Lineage]] rewrites op to hand these on.
  *
  * @param op          resolved, on `argument`
  * @param keys        ordinals of the columns that identify a row; none: paths are not kept
  * @param depthColumn the name of the hop, if it is emitted
  */
private[recursion] final class RecursionResolution(
    input: LogicalPlan,
    op: LogicalPlan,
    argument: RecursionArgument,
    rules: OpRules,
    settings: RecursionSettings,
    keys: Seq[Int],
    depthColumn: Option[String]
) {
  import RecursionResolution._
  import RoundColumns.{Cycle, Depth, Path}

  private val width = input.output.size
  private val hasPath = keys.nonEmpty

  def fixpoint(): LogicalPlan = {
    // All rows of a generation are equally deep, so no column is needed for it.
    val round = new Round(hasDepth = false)
    val (body, columns) = round.body()
    val depth = depthColumn.map(name => AttributeReference(name, IntegerType, nullable = false)())
    val results = body.output.map(RecursionArgument.columnLike) ++ depth
    shown(results, depth, columns, Fixpoint(argument.id, body, settings, columns, results, round.seed))
  }

  def feedback(): LogicalPlan = {
    val round = new Round(hasDepth = depthColumn.nonEmpty || settings.maxDepth.nonEmpty)
    val (body, columns) = round.body()
    val schema = StructType(round.seed.output.map(a => StructField(a.name, SparkPlans.nullable(a.dataType))))
    val times = (0 until width).filter(i => input.output(i).metadata.contains(EventTimeWatermark.delayKey))
    val rows = Union(round.seed, fedBack(schema, times))
    val looped = body.transformUp {
      case leaf: RecursionArgument if rules.isArgument(leaf) =>
        Project(
          rows.output.zip(leaf.output).map { case (row, column) =>
            Alias(row, column.name)(column.exprId, explicitMetadata = Some(column.metadata))
          },
          rows
        )
    }
    val tap = FeedbackTap(settings, columns, times, schema, looped)
    shown(tap.output, columns.depth.filter(_ => depthColumn.nonEmpty).map(tap.output), columns, tap)
  }

  /** The source of the rows that are fed back. It holds back the watermark if they have an event time. */
  private def fedBack(schema: StructType, times: Seq[Int]): LogicalPlan = {
    val output = toAttributes(schema)
    val relation = StreamInputs.relation(new FeedbackTable(settings, schema), output)
    val node = UUID.randomUUID
    val rows = FeedbackRows(node, settings.name, relation)
    times.headOption.fold(rows: LogicalPlan)(i =>
      EventTimeWatermark(node, output(i), new CalendarInterval(0, 0, 0), rows)
    )
  }

  /** The columns for the user. */
  private def shown(
      output: Seq[Attribute],
      depth: Option[Attribute],
      columns: RoundColumns,
      plan: LogicalPlan
  ): LogicalPlan = {
    val path = columns.path.map(output)
    val cycle = columns.cycle.filter(_ => settings.onCycle == Policy.Mark).map(output)
    // By the names of the input, of which op may have changed the case.
    val all = output.take(width).zip(input.output).map { case (a, of) => Alias(a, of.name)() } ++
      depth.map(Alias(_, depthColumn.get)()) ++
      path.map(Alias(_, PathColumn)()) ++
      cycle.map(closed => Alias(If(closed, Literal(Mark.Cycle.reason), Mark.None), Mark.Column)())
    Project(all, plan)
  }

  /** The columns that are fed back, and their values at the start and at each hop. */
  private final class Round(hasDepth: Boolean) {

    /** The input as it first goes into op. */
    val seed: LogicalPlan = {
      val depth = Option.when(hasDepth)(Alias(Literal(0), Depth)())
      val path =
        if (hasPath)
          Seq(Alias(CreateArray(Seq(key(input.output))), Path)(), Alias(Literal(false), Cycle)())
        else Nil
      Project(input.output.map(a => Alias(a, a.name)()) ++ depth ++ path, input)
    }

    /** A null is a key like any other, but `array_contains` doesn't find it. */
    private def isAmong(key: Expression, path: Attribute): Expression = {
      val nulls = CreateArray(Seq(Literal(null, key.dataType)))
      Or(
        Coalesce(Seq(ArrayContains(path, key), Literal(false))),
        And(IsNull(key), GreaterThan(Size(ArrayIntersect(path, nulls)), Literal(0)))
      )
    }

    /** The expression that identifies a row. */
    private def key(columns: Seq[Attribute]): Expression = keys match {
      case Seq(one) => columns(one)
      case several => CreateNamedStruct(several.flatMap(i => Seq(Literal(input.output(i).name), columns(i))))
    }

    /** @return op with the recursion's own columns, and where all columns are */
    def body(): (LogicalPlan, RoundColumns) = {
      val hidden = seed.output.drop(width).map(RecursionArgument.columnLike)
      val (carried, own) =
        if (hidden.isEmpty) (op, Nil)
        else
          new Lineage(rules, hidden)
            .carry(op)
            .fold(operator => throw RecursionErrors.untracked(settings.name, option, operator), identity)
      def ordinal(name: String): Option[Int] = Option(hidden.indexWhere(_.name == name)).filter(_ >= 0)
      val depth = ordinal(Depth).map(i => Alias(Add(own(i), Literal(1)), Depth)())
      val paths = ordinal(Path).map(own).toSeq.flatMap { before =>
        val last = key(op.output)
        Seq(
          Alias(Concat(Seq(before, CreateArray(Seq(last)))), Path)(),
          Alias(isAmong(last, before), Cycle)()
        )
      }
      val plan = if (hidden.isEmpty) op else Project(op.output ++ depth ++ paths, carried)
      def place(name: String): Option[Int] = ordinal(name).map(width + _)
      val known = if (hasPath) keys else 0 until width
      (plan, RoundColumns(plan.output, known, place(Depth), place(Path), place(Cycle)))
    }

    private def option: String =
      if (hasPath) "path_columns" else if (depthColumn.nonEmpty) "depth_column" else "max_depth"
  }
}

private[recursion] object RecursionResolution {
  private val PathColumn = "path"

  /** The columns that are emitted besides the user's and the depth. */
  def addedColumns(settings: RecursionSettings, hasPath: Boolean): Seq[String] =
    Option.when(hasPath)(PathColumn).toSeq ++ Option.when(settings.onCycle == Policy.Mark)(Mark.Column)
}

/** Hands columns of op's argument through op, which doesn't know them. So each result has the depth and the
  * path of the row that it comes from.
  *
  * {{{
  *   Project [parent AS node]                     Project [parent AS node, path]
  *     Join node                            ->      Join node
  *       RecursionArgument [node]                     RecursionArgument [node, path]
  *       Relation [node, parent]                      Relation [node, parent]
  * }}}
  *
  * @param hidden the columns
  */
private[recursion] final class Lineage(rules: OpRules, hidden: Seq[AttributeReference]) {

  /** The plan with the columns, and the columns in it; or the operator that doesn't pass them on. */
  type Carried = Either[String, (LogicalPlan, Seq[Attribute])]

  def carry(plan: LogicalPlan): Carried = plan match {
    case leaf: RecursionArgument if rules.isArgument(leaf) =>
      // A DataFrame that op uses twice is two leaves.
      val own = hidden.map(_.newInstance())
      Right((leaf.copy(output = leaf.output ++ own), own))
    case Project(list, child) =>
      carry(child).map { case (carried, own) => (Project(list ++ own, carried), own) }
    // A temporary view; the optimizer would put its child in its place, too.
    case view: View if view.output == view.child.output => carry(view.child)
    case _: Filter | _: SubqueryAlias | _: ResolvedHint | _: RepartitionOperation | _: Sort | _: Sample |
        _: Generate | _: Deduplicate | _: DeduplicateWithinWatermark =>
      carryChild(plan, 0)
    case join: Join => carryJoin(join)
    case join: StreamJoin if rules.usesArgument(join.left) && !rules.usesArgument(join.right) =>
      carryChild(join, 0)
    case union: Union => carryUnion(union)
    case other => Left(other.nodeName)
  }

  private def carryChild(node: LogicalPlan, child: Int): Carried = carry(node.children(child)).map {
    case (carried, own) => (node.withNewChildren(node.children.updated(child, carried)), own)
  }

  private def carryJoin(join: Join): Carried = {
    val (inLeft, inRight) = (rules.usesArgument(join.left), rules.usesArgument(join.right))
    val passes = join.joinType match {
      case _: InnerLike => inLeft != inRight
      case LeftOuter | LeftSemi | LeftAnti => inLeft && !inRight
      case RightOuter => inRight && !inLeft
      case _ => false
    }
    if (passes) carryChild(join, if (inLeft) 0 else 1)
    else Left(s"a ${join.joinType.sql.toLowerCase(Locale.ROOT)} join")
  }

  private def carryUnion(union: Union): Carried =
    if (!union.children.forall(rules.usesArgument)) Left("a union with other rows")
    else {
      val (refused, branches) = union.children.partitionMap { child =>
        carry(child).map { case (carried, own) => Project(child.output ++ own, carried) }
      }
      refused.headOption.toLeft {
        // The columns of a union are those of its first branch, by name and number.
        val both = union.copy(children = branches)
        (both, both.output.takeRight(hidden.size))
      }
    }
}
