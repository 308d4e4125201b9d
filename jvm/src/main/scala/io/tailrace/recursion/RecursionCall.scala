package io.tailrace.recursion

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.expressions.RowOrdering
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.{DataFrame, Dataset}

import io.tailrace.plan.{Columns, Obstacle}

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
