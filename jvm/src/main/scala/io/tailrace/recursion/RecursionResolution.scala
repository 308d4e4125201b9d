package io.tailrace.recursion

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.CalendarInterval

import io.tailrace.common.{Mark, Policy}

/** Makes the plan of a recursion out of that of its input and that of its op. The rows that go round have the user's columns,
  * and behind them what the recursion itself wants to know: the hop, the keys that the row has come by, and whether the last
  * of them is there twice. Op is rewritten to hand these on ([[Lineage]]).
  *
  * @param op   resolved, on `argument`
  * @param keys ordinals of the columns that a row is known by; none: paths are not kept
  * @param depthColumn what the hop is to be called, if it is to come out
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

  def fixpoint(): LogicalPlan = {
    // All rows of a generation are equally deep: nothing has to go round for that.
    val round = new Round(hasDepth = false, hasPath = keys.nonEmpty)
    val (body, columns) = round.body()
    val depth = depthColumn.map(name => AttributeReference(name, IntegerType, nullable = false)())
    val results = body.output.map { a =>
      AttributeReference(a.name, SparkPlans.nullable(a.dataType), nullable = true, a.metadata)()
    } ++ depth
    val fixpoint = Fixpoint(argument.id, body, settings, columns, results, round.seed)
    Project(
      shown(results.take(width), depth, columns.path.map(results), columns.cycle.map(results)),
      fixpoint
    )
  }

  def feedback(): LogicalPlan = {
    val round =
      new Round(hasDepth = depthColumn.nonEmpty || settings.maxDepth.nonEmpty, hasPath = keys.nonEmpty)
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
    val out = tap.output
    val depth = columns.depth.filter(_ => depthColumn.nonEmpty).map(out)
    Project(shown(out.take(width), depth, columns.path.map(out), columns.cycle.map(out)), tap)
  }

  /** The source of the rows that come round, holding the watermark where they have an event time. */
  private def fedBack(schema: StructType, times: Seq[Int]): LogicalPlan = {
    val table = new FeedbackTable(settings, schema)
    val relation = StreamingRelationV2(
      None,
      table.name(),
      table,
      CaseInsensitiveStringMap.empty(),
      toAttributes(schema),
      None,
      None,
      None
    )
    val node = UUID.randomUUID
    val rows = FeedbackRows(node, settings.name, relation)
    times.headOption.fold(rows: LogicalPlan)(i =>
      EventTimeWatermark(node, relation.output(i), new CalendarInterval(0, 0, 0), rows)
    )
  }

  private def shown(
      columns: Seq[Attribute],
      depth: Option[Attribute],
      path: Option[Attribute],
      cycle: Option[Attribute]
  ): Seq[NamedExpression] =
    columns.map(a => Alias(a, a.name)()) ++
      depth.map(a => Alias(a, depthColumn.get)()) ++
      path.map(a => Alias(a, PathColumn)()) ++
      cycle.filter(_ => settings.onCycle == Policy.Mark).map(mark)

  private def mark(closesCycle: Attribute): NamedExpression =
    Alias(If(closesCycle, Literal(Mark.Cycle.reason), Mark.None), Mark.Column)()

  /** The columns that go round, and how they come to be: at the start, and at each hop. */
  private final class Round(hasDepth: Boolean, hasPath: Boolean) {

    /** The input as it first goes into op. */
    val seed: LogicalPlan = {
      val own = input.output.map(a => Alias(a, a.name)())
      Project(
        own ++
          (if (hasDepth) Some(Alias(Literal(0), Depth)()) else None) ++
          (if (hasPath) Seq(Alias(CreateArray(Seq(key(input.output))), Path)(), closes(Literal(false)))
           else Nil),
        input
      )
    }

    private def closes(value: Expression): NamedExpression = Alias(value, Cycle)()

    /** A null is a key as any other: `array_contains` knows nothing of it. */
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

    /** @return op with what goes round besides the user's columns, and where all of it is */
    def body(): (LogicalPlan, RoundColumns) = {
      val hidden =
        seed.output.drop(width).map(a => AttributeReference(a.name, SparkPlans.nullable(a.dataType))())
      val (carried, own) =
        if (hidden.isEmpty) (op, Nil)
        else
          new Lineage(rules, hidden)
            .carry(op)
            .fold(operator => throw RecursionErrors.untracked(settings.name, option, operator), identity)
      def ordinal(name: String): Option[Int] = Option(hidden.indexWhere(_.name == name)).filter(_ >= 0)
      val depth = ordinal(Depth).map(i => Alias(Add(own(i), Literal(1)), Depth)())
      val path = ordinal(Path).map(own)
      val paths = path.toSeq.flatMap { before =>
        val last = key(op.output)
        Seq(
          Alias(Concat(Seq(before, CreateArray(Seq(last)))), Path)(),
          closes(isAmong(last, before))
        )
      }
      val plan = if (hidden.isEmpty) op else Project(op.output ++ depth ++ paths, carried)
      val columns = RoundColumns(
        plan.output,
        if (keys.isEmpty) 0 until width else keys,
        ordinal(Depth).map(width + _),
        ordinal(Path).map(width + _),
        ordinal(Cycle).map(width + _)
      )
      (plan, columns)
    }

    private def option: String =
      if (hasPath) "path_columns" else if (depthColumn.nonEmpty) "depth_column" else "max_depth"
  }
}

private[recursion] object RecursionResolution {
  private val Depth = "__tailrace_depth"
  private val Path = "__tailrace_path"
  private val Cycle = "__tailrace_cycle"

  val PathColumn = "path"

  /** The names of the columns that come out besides the user's. */
  def addedColumns(settings: RecursionSettings, hasPath: Boolean, depthColumn: Option[String]): Seq[String] =
    depthColumn.toSeq ++
      (if (hasPath) Seq(PathColumn) else Nil) ++
      (if (settings.onCycle == Policy.Mark) Seq(Mark.Column) else Nil)
}
