package io.tailrace.api

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Dataset}

import io.tailrace.recursion.{RecursionCall, RecursionOptions}

/** The calls of Python that make a recursion.
  *
  * {{{
  *   classic    beginRecursion(frame) ──> argument ──> op, in Python ──> result
  *   Connect    recursionArgument(id, frame)      what op gets; op's result has it in it
  *              recursively(id, frame, op's result)
  * }}}
  */
private[api] trait PythonRecursionCalls {

  /** Begins a recursion: op is called in between.
    *
    * @param pathColumns empty: paths are not kept
    */
  def beginRecursion(
      frame: Dataset[_],
      pathColumns: util.List[String],
      options: util.Map[String, String]
  ): RecursionCall = Tailrace.beginRecursion(frame, chosen(pathColumns, options))

  /** What a client calls op with.
    *
    * @param id 64 bits in decimal digits, below zero. No two calls of clients have the same
    */
  def recursionArgument(
      id: String,
      frame: Dataset[_],
      pathColumns: util.List[String],
      options: util.Map[String, String]
  ): DataFrame = resumed(id, frame, pathColumns, options).argument

  def recursively(
      id: String,
      frame: Dataset[_],
      pathColumns: util.List[String],
      options: util.Map[String, String],
      result: Dataset[_]
  ): DataFrame = resumed(id, frame, pathColumns, options).result(result)

  private def resumed(
      id: String,
      frame: Dataset[_],
      pathColumns: util.List[String],
      options: util.Map[String, String]
  ): RecursionCall = Tailrace.beginRecursion(frame, chosen(pathColumns, options), Some(id.toLong))

  private def chosen(
      pathColumns: util.List[String],
      options: util.Map[String, String]
  ): RecursionOptions = {
    val chosen = new Chosen("tailrace.recursively", options)
    RecursionOptions(
      // More hops than an Int has are as many as there are; less than none is refused whatever the number.
      maxDepth =
        chosen.long("max_depth").map(depth => Math.max(-1, Math.min(Int.MaxValue.toLong, depth)).toInt),
      maxRows = chosen.long("max_rows"),
      onLimit = chosen("on_limit"),
      depthColumn = chosen.get("depth_column"),
      pathColumns = pathColumns.asScala.toSeq,
      onCycle = chosen("on_cycle"),
      mode = chosen("mode"),
      name = chosen("name")
    )
  }
}
