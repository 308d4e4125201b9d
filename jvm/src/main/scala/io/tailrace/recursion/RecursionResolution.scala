package io.tailrace.recursion

import java.util.Locale
import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.tailrace.{SparkPlans, StreamInputs}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Mark, OwnNames, Policy}
import io.tailrace.plan.StreamJoin

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

  private val width = input.output.size
  private val hasPath = keys.nonEmpty

  def fixpoint(): LogicalPlan = {
    // All rows of a generation are equally deep, so no column has to go round for it.
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

  /** The source of the rows that come round. It holds the watermark if they have an event time. */
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

  /** The columns that go round, and their values at the start and at each hop. */
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
  val Depth: String = OwnNames.of("depth")
  private val Path = OwnNames.of("path")
  private val Cycle = OwnNames.of("cycle")

  /** Columns that the user hasn't named. */
  val Own: Set[String] = Set(Depth, Path, Cycle)
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

  /** The plan with the columns, and what they are there; or the operator that doesn't let them pass. */
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
