package io.tailrace.recursion

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.DataType

/** A random expression of op's, computed in a task that makes all hops of its rows: at each hop it begins with another seed.
  * Without this it would begin with the same one each time that op is computed, and give the same values.
  *
  * @param child one that has a seed, which has been mixed with that of the micro-batch already
  */
private[recursion] final case class SeededByHop(child: Expression)
    extends UnaryExpression
    with Nondeterministic
    with CodegenFallback {
  @transient private var seeded: Expression = _

  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def stateful: Boolean = true

  override protected def initializeInternal(partitionIndex: Int): Unit = {
    seeded = child match {
      case random: ExpressionWithRandomSeed => HopSeeds.mixed(random, ArgumentRDD.hop.toLong)
      case other => throw new IllegalStateException(s"${other.prettyName} has no seed")
    }
    seeded.foreach {
      case random: Nondeterministic => random.initialize(partitionIndex)
      case _ =>
    }
  }

  override protected def evalInternal(input: InternalRow): Any = seeded.eval(input)

  override protected def withNewChildInternal(newChild: Expression): SeededByHop = copy(child = newChild)
}

private[recursion] object HopSeeds {

  /** The same expression with a seed that is made of its own and another number: another number, other values. */
  def mixed(random: ExpressionWithRandomSeed, number: Long): Expression =
    random.withNewSeed(mix(seed(random), number))

  private def seed(random: ExpressionWithRandomSeed): Long = random.seedExpression.eval() match {
    case number: Number => number.longValue
    // Spark takes rand(null) for rand(0).
    case _ => 0L
  }

  /** The finalizer of SplitMix64: neighbours don't stay neighbours. */
  private def mix(seed: Long, number: Long): Long = {
    var z = seed + (number + 1) * 0x9e3779b97f4a7c15L
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL
    z ^ (z >>> 31)
  }
}
