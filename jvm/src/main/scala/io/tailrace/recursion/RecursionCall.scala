package io.tailrace.recursion

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, RowOrdering}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.{DataFrame, Dataset}

import io.tailrace.plan.{Columns, Obstacle}

/** One call of `recursively`, in the two halves between which op is called: Python calls it itself. */
final class RecursionCall private[tailrace] (frame: Dataset[_], options: RecursionOptions) {
  private val session = SparkPlans.session(frame)
  private val input = SparkPlans.analyzed(frame)
  private val sameName = session.sessionState.conf.resolver
  private val settings = options.settings
  private val wantedMode = options.wantedMode
  private val columns = new Columns(RecursionOptions.arguments, input.output, sameName)
  private val keys = options.pathColumns.map(key)

  // Results of op may have nulls where the input has none.
  private val leaf = RecursionArgument(
    RecursionCall.ids.incrementAndGet(),
    input.output.map(a =>
      AttributeReference(a.name, SparkPlans.nullable(a.dataType), nullable = true, a.metadata)()
    ),
    input.isStreaming
  )
  private val rules = new OpRules(leaf.id)

  checkAddedColumns()

  /** The DataFrame that op is called with. */
  val argument: DataFrame = SparkPlans.toFrame(session, leaf)

  /** @param of what op has made of its argument
    * @return all that comes of the input
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
    if (rules.isInSubquery(op)) {
      throw RecursionErrors.operator(
        settings.name,
        "a subquery over its argument",
        "what it gives isn't known by row"
      )
    }
    if (!rules.usesArgument(op)) throw RecursionErrors.argumentUnused(settings.name)
    if (rules.isNested(op)) throw RecursionErrors.nested(settings.name)
    rules.refused(op).foreach(refuse)
    val optimized = SparkPlans.optimized(session, op)
    if (rules.isIdentity(op) || rules.isIdentity(optimized)) throw RecursionErrors.identity(settings.name)
    // The optimizer may see that op gives nothing at all: it ends.
    if (rules.isEndless(op) || (rules.usesArgument(optimized) && rules.isEndless(optimized))) {
      throw RecursionErrors.endless(settings.name)
    }
  }

  private def refuse(obstacle: Obstacle): Nothing =
    throw RecursionErrors.operator(settings.name, obstacle.operator, obstacle.reason)

  private def checkSchema(op: LogicalPlan): Unit = {
    val expected = leaf.output
    val differences = expected.zipAll(op.output, null, null).zipWithIndex.collect {
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
    val obstacle = rules.needsState(op)
    wantedMode match {
      case Some(RecursionMode.Fixpoint) =>
        obstacle.foreach(o =>
          throw RecursionErrors.mode(settings.name, "fixpoint", s"${o.operator} in op: ${o.reason}")
        )
        RecursionMode.Fixpoint
      case Some(RecursionMode.Feedback) =>
        if (!input.isStreaming)
          throw RecursionErrors.mode(settings.name, "feedback", "a batch frame has no micro-batches")
        RecursionMode.Feedback
      case None if obstacle.isEmpty => RecursionMode.Fixpoint
      case None if input.isStreaming => RecursionMode.Feedback
      case None => throw RecursionErrors.operator(settings.name, obstacle.get.operator, obstacle.get.reason)
    }
  }

  /** The ordinal of a column of the DataFrame. */
  private def key(name: String): Int = {
    val column = columns.find("path_columns", name)
    if (!RowOrdering.isOrderable(column.dataType))
      throw columns.wrongType("path_columns", column, "a type whose values can be compared")
    input.output.indexOf(column)
  }

  private def checkAddedColumns(): Unit = {
    val added = RecursionResolution.addedColumns(settings, keys.nonEmpty, options.depthColumn)
    added.zipWithIndex.foreach { case (name, i) =>
      val cure = s"${Columns.rename(name)} The column of the depth takes another name with `depth_column`."
      columns.checkAdded(name, cure)
      if (added.take(i).exists(sameName(_, name)))
        throw RecursionOptions.arguments.invalid("depth_column", name, "a name that no other column has")
    }
  }
}

private object RecursionCall {
  private val ids = new AtomicLong
}
