package io.tailrace.api

import org.apache.spark.sql.functions._
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.{Column, DataFrame, Dataset}

import io.tailrace.join.{JoinCheckpoint, WiderKeys}
import io.tailrace.label.JoinOptions
import io.tailrace.plan.Columns.named

/** Splits the rows of keys that the user names over several partitions. By its key alone, all rows of one
  * would be the work of one task.
  *
  * {{{
  *   on = item_id, hot = 7, hot_parts = 3          part
  *   left   (7, 12:00) (7, 12:01) (8, 12:00)       1 0 | 0      by the row's time; 0 for other keys
  *   right  (7, 12:05) (8, 12:05)                  0 1 2 | 0    each right row of the key in all parts
  *   join on item_id and part
  * }}}
  *
  * A left row has one part, and finds all right rows of its key there.
  */
private[api] object HotKeys {
  import JoinCheckpoint.Part

  /** @param on   pairs of key columns (left, right)
    * @param join of the two sides, with the part as one more key column
    */
  def split(left: Dataset[_], right: Dataset[_], on: Seq[(String, String)], options: JoinOptions)(
      join: (DataFrame, DataFrame, Seq[(String, String)]) => DataFrame
  ): DataFrame = {
    val kinds = on.map { case (l, r) => comparedAs(left, l, right, r) }
    check(on, kinds, options)
    val parts = options.hotParts
    val byTime = pmod(xxhash64(named(options.leftTime)), lit(parts)).cast("int")
    val all = array((0 until parts).map(lit(_)): _*)
    val keys = options.hot.map(_.zip(kinds).map { case (value, kind) => lit(value).cast(kind) })
    def isHot(key: ((String, String)) => String): Column = {
      val columns = on.zip(kinds).map { case (pair, kind) => named(key(pair)).cast(kind) }
      if (columns.size == 1) columns.head.isin(keys.flatten: _*)
      else any(keys.map(_.zip(columns).map { case (value, column) => column === value }.reduce(_ && _)))
    }
    val lefts = left.withColumn(Part, when(isHot(_._1), byTime).otherwise(lit(0)))
    val rights = right.withColumn(Part, explode(when(isHot(_._2), all).otherwise(array(lit(0)))))
    join(lefts, rights, on :+ (Part -> Part)).drop(Part)
  }

  /** The type in which the join compares two key columns: of both sides, so that a row is hot on both or none. */
  private def comparedAs(left: Dataset[_], l: String, right: Dataset[_], r: String): DataType = {
    val (one, other) =
      (left.select(named(l)).schema.head.dataType, right.select(named(r)).schema.head.dataType)
    WiderKeys.common(one, other).getOrElse(one)
  }

  /** A balanced tree: Spark walks through it by recursion. */
  private def any(conditions: Seq[Column]): Column =
    if (conditions.size == 1) conditions.head
    else {
      val (some, others) = conditions.splitAt(conditions.size / 2)
      any(some) || any(others)
    }

  private def check(on: Seq[(String, String)], kinds: Seq[DataType], options: JoinOptions): Unit = {
    import options.arguments
    arguments.number("the number of keys in hot", options.hot.size.toLong, least = 1, MostKeys)
    arguments.number("hot_parts", options.hotParts.toLong, least = 2, MostParts)
    options.hot.filter(_.size != on.size).foreach { values =>
      val allowed = s"one value for each key column, ${on.size}, in each of the keys"
      throw arguments.invalid("hot", values.mkString(", "), allowed)
    }
    on.map(_._1).zip(kinds).zip(options.hot.transpose).foreach { case ((key, kind), values) =>
      values.find(value => !SparkPlans.isValueOf(lit(value), kind)).foreach { value =>
        throw arguments.invalid("hot", value, s"values of `$key`, which is compared as ${kind.sql}")
      }
    }
    // A late right row would be emitted once for each part.
    if (options.onLate != "drop") throw arguments.invalid("on_late", options.onLate, "'drop' with `hot`")
  }

  /** Each row is compared with all of them. */
  private val MostKeys = 1000L

  /** Each right row of the key is kept so many times. */
  private val MostParts = 1024L
}
