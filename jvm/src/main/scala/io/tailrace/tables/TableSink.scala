package io.tailrace.tables

import org.apache.spark.sql.catalyst.expressions.RowOrdering
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.functions.{col, expr, struct, when}
import org.apache.spark.sql.sources.{DataSourceRegister, StreamSinkProvider}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SQLContext}
import org.apache.spark.storage.StorageLevel
import org.json4s.JsonAST.{JArray, JString}
import org.json4s.jackson.JsonMethods.{compact, parse, render}

import io.tailrace.common.{Arguments, CallDocument, Mark, OwnNames}
import io.tailrace.driver.SkippedBatch
import io.tailrace.plan.{Columns, WriteCheck}

/** The arguments of [[io.tailrace.api.Tailrace.writeTable]] besides the table. Names and defaults are those of Python.
  *
  * @param keys rows with equal keys are versions of one row of the table; none: rows are appended
  */
final case class TableOptions(format: String = "delta", keys: Option[Seq[String]] = None) {
  import TableOptions.arguments

  /** The options of the writer.
    *
    * @throws io.tailrace.common.TailraceAnalysisException on a value that isn't allowed
    */
  private[tailrace] def ofWriter(table: String, columns: Columns): Map[String, String] = {
    val of = arguments.choice("format", format, TableFormat.all)
    of.checkName(arguments, table)
    if (keys.exists(_.isEmpty)) throw arguments.invalid("keys", "", "one column or more")
    columns.checkDistinct("frame")
    keys.toSeq.flatten
      .map(columns.find("keys", _))
      .find(key => !RowOrdering.isOrderable(key.dataType))
      .foreach { key =>
        throw columns.wrongType("keys", key, "a type whose values can be compared")
      }
    Map(TableSink.Table -> table, TableSink.Of -> format) ++
      keys.map(names => TableSink.Keys -> compact(render(JArray(names.map(JString(_)).toList))))
  }
}

object TableOptions {
  private[tailrace] val arguments = new Arguments("tailrace.write_table")

  private[tailrace] def of(document: CallDocument): TableOptions =
    TableOptions(document("format").text, document.get("keys").map(_.texts))
}

/** The format of `tailrace.write_table`. It makes the sink. */
final class TableSinkProvider extends StreamSinkProvider with DataSourceRegister {
  override def shortName(): String = TableSink.Format

  override def createSink(
      context: SQLContext,
      parameters: Map[String, String],
      partitionColumns: Seq[String],
      outputMode: OutputMode
  ): Sink = {
    import TableOptions.arguments
    def usedByItself = arguments.invalid("format", TableSink.Format, "left to write_table: start its writer")
    val keys =
      parameters.get(TableSink.Keys).toSeq.flatMap(parse(_).children.collect { case JString(k) => k })
    val allowed = OutputMode.Append +: Option.when(keys.nonEmpty)(OutputMode.Update).toSeq
    if (!allowed.contains(outputMode))
      throw arguments.invalid("outputMode", outputMode, "append; or update, with keys")
    parameters
      .get("path")
      .foreach(path => throw arguments.invalid("path", path, "left out: start() has no path here"))
    new TableSink(
      context.sparkSession.asInstanceOf[SparkSession],
      parameters.getOrElse(TableSink.Table, throw usedByItself),
      arguments.choice("format", parameters.getOrElse(TableSink.Of, throw usedByItself), TableFormat.all),
      keys,
      TableWriter.of(arguments, parameters, partitionColumns)
    )
  }
}

/** Writes the micro-batches of a query into a table, each once.
  *
  * {{{
  *   no keys   append
  *   keys      MERGE of the newest row of each key
  * }}}
  *
  * A batch that runs again may be in the table: [[TableCommits]] knows. Its operators have to run nevertheless: the
  * watermark and later batches need their results.
  */
final class TableSink private[tables] (
    session: SparkSession,
    named: String,
    format: TableFormat,
    keys: Seq[String],
    writer: TableWriter
) extends Sink {
  private val table = new TargetTable(session, named, format)
  private var isFirst = true

  /** Makes the table, or adds columns to it, when the query is started. */
  def open(schema: StructType): Unit = table.open(schema, writer)

  override def addBatch(batchId: Long, data: DataFrame): Unit = {
    val session = SparkPlans.session(data)
    val target = table.in(session)
    val query = StreamingBatch.current(session).queryId
    def twoWriters(batch: Long, cause: Throwable) = TableErrors.twoWriters(named, batch, cause)
    val commits = new TableCommits(target, query, TableSink.Batch, writer.options, twoWriters)
    // Only the first batch of a run may have been written by an earlier one.
    if (isFirst && commits.has(batchId)) SkippedBatch.runThrough(session)
    else {
      val rows = SparkPlans.execution(data).toRdd
      val batch = target.fitted(SparkPlans.frameOf(session, rows, data.schema))
      if (keys.isEmpty) commits.append(batch, batchId)
      else new KeyedRows(target, batch, keys.map(target.nameOf)).merge(commits, batchId)
    }
    isFirst = false
  }

  override def toString: String = s"TableSink[$named]"
}

object TableSink {
  val Format = "tailrace-table"

  private[tables] val Table = "tailrace.table"
  private[tables] val Of = "tailrace.format"
  private[tables] val Keys = "tailrace.keys"

  /** The name of micro-batches in the summary of Iceberg's snapshots. */
  private val Batch = "tailrace.batch"
}

/** Rows of a micro-batch that are versions of rows of a table, by their keys.
  *
  * {{{
  *   batch    12:00 horizon 10 min [a]    12:00 horizon 1 hour [a, b]    12:01 amended [c]
  *   newest   12:00 horizon 1 hour [a, b]                                12:01 amended [c]
  *   table    12:00: replaced, unless its version is newer               12:01: its labels are replaced
  * }}}
  *
  * A version is as new as its horizon, the final one is newer, and an amendment is the newest. An amendment has the keys
  * and the labels only: the other columns are those of the version before it, which is in the table, or in the batch, as
  * its `base`.
  */
private[tables] final class KeyedRows(table: TargetTable, batch: DataFrame, keys: Seq[String]) {
  private val session = SparkPlans.session(batch)
  private val same = session.sessionState.conf.resolver

  /** A column of `join`, in the table's case. */
  private def find(name: String, dataType: DataType): Option[String] =
    batch.schema.find(f => same(f.name, name) && f.dataType == dataType).map(f => quoteIdentifier(f.name))

  /** `horizon` and `final`. */
  private val horizons = find("horizon", StringType).zip(find("final", BooleanType))
  private val mark = find(Mark.Column, StringType)
  private val base = OwnNames.of("base")
  private val others = batch.columns.toSeq.diff(keys)

  private def isAmended(of: String): Option[String] =
    mark.map(column => s"($of.$column <=> '${Mark.Amended.reason}')")

  /** A time, because it has an order and durations in Spark's words can be added to it. */
  private def rank(of: String): Option[String] = Option.when(horizons.nonEmpty || mark.nonEmpty) {
    def at(year: Int) = s"timestamp_ntz'$year-01-01 00:00:00'"
    val amended = isAmended(of).fold("")(is => s"WHEN $is THEN ${at(9999)} ")
    val early = horizons.fold("") { case (horizon, isFinal) =>
      s"WHEN NOT $of.$isFinal THEN ${at(1970)} + try_cast($of.$horizon AS INTERVAL) "
    }
    s"CASE $amended${early}ELSE ${at(9998)} END"
  }

  /** Labels are added to a row, and not taken from it: of two amendments the newer one has more. */
  private def labels: Option[String] = isAmended("s").map { is =>
    val arrays = batch.schema.filter(_.dataType.isInstanceOf[ArrayType]).map(f => quoteIdentifier(f.name))
    s"CASE WHEN $is THEN ${("0" +: arrays.map(name => s"coalesce(array_size($name), 0)")).mkString(" + ")} END"
  }

  private def newest: DataFrame = {
    val number = OwnNames.of("number")
    // Among equals, the same one is chosen each time.
    def isHashed(of: DataType): Boolean = of match {
      case StructType(fields) => fields.forall(field => isHashed(field.dataType))
      case ArrayType(element, _) => isHashed(element)
      case other => !other.isInstanceOf[MapType] && other != VariantType
    }
    val hashed =
      batch.schema.filter(field => isHashed(field.dataType)).map(field => quoteIdentifier(field.name))
    val order =
      (rank("s") ++ labels ++ Seq(s"xxhash64(${hashed.mkString(", ")})")).map(_ + " DESC").mkString(", ")
    val by = s"PARTITION BY ${keys.map(quoteIdentifier).mkString(", ")} ORDER BY $order"
    val rows = batch.as("s")
    val based = isAmended("s").fold(rows) { is =>
      val ordinary = when(expr(s"NOT $is"), struct(others.map(Columns.named): _*))
      val all = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
      val newest = s"first_value(${quoteIdentifier(base)}, true) OVER ($by $all)"
      rows.withColumn(base, ordinary).withColumn(base, expr(s"IF($is, $newest, NULL)"))
    }
    val numbered = based.withColumn(number, expr(s"row_number() OVER ($by)"))
    numbered.where(col(number) === 1).drop(number)
  }

  /** Reads the batch once, whatever MERGE reads: it may read its source several times. */
  def merge(commits: TableCommits, batchId: Long): Unit = {
    val rows = newest.persist(StorageLevel.MEMORY_AND_DISK)
    try {
      val nulls = keys.map(key => expr(s"count_if(${quoteIdentifier(key)} IS NULL)"))
      val counts = rows.agg(expr("count(*)"), nulls: _*).head()
      val lacking = keys.zipWithIndex.collect { case (key, i) if counts.getLong(i + 1) > 0 => key }
      if (lacking.nonEmpty) throw TableErrors.keyNull(table.name, batchId, lacking)
      if (counts.getLong(0) > 0) {
        rows.createOrReplaceTempView(KeyedRows.View)
        try commits.merge(statement, batchId)
        finally session.catalog.dropTempView(KeyedRows.View): Unit
      }
    } finally rows.unpersist(): Unit
  }

  private def statement: String = {
    val names = batch.columns.toSeq.map(quoteIdentifier)
    val ofBase = s"s.${quoteIdentifier(base)}"
    def isNewer(of: String) =
      rank(of).zip(rank("t")).map { case (own, known) => s"coalesce($own >= $known, true)" }
    val set = others.map(quoteIdentifier).map { name =>
      val amended = isAmended("s").zip(isNewer(ofBase)).map { case (is, newer) =>
        val former = s"CASE WHEN $ofBase IS NOT NULL AND $newer THEN $ofBase.$name ELSE t.$name END"
        s"CASE WHEN $is THEN coalesce(s.$name, $former) ELSE s.$name END"
      }
      s"t.$name = ${amended.getOrElse(s"s.$name")}"
    }
    val update =
      if (set.isEmpty) ""
      else s"WHEN MATCHED${isNewer("s").fold("")(" AND " + _)} THEN UPDATE SET ${set.mkString(", ")}"
    val values = batch.columns.toSeq.map { column =>
      val name = quoteIdentifier(column)
      if (mark.isEmpty || keys.contains(column)) s"s.$name" else s"coalesce(s.$name, $ofBase.$name)"
    }
    val on = keys.map(quoteIdentifier).map(key => s"t.$key = s.$key").mkString(" AND ")
    val insert = s"INSERT (${names.mkString(", ")}) VALUES (${values.mkString(", ")})"
    s"""MERGE INTO ${table.name} AS t USING ${KeyedRows.View} AS s ON $on $update
       |WHEN NOT MATCHED THEN $insert""".stripMargin
  }
}

private object KeyedRows {
  private val View = "tailrace_batch"
}

/** Makes the table when the query is started: then the caller sees what is wrong. */
object TableWriteCheck extends WriteCheck {
  override def apply(start: QueryStart): Unit = start.sink match {
    case ours: TableSink => ours.open(start.plan.schema)
    case _ =>
  }
}
