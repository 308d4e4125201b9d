package io.tailrace.tables

import java.util.Locale

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.catalyst.analysis.{ResolvedIdentifier, UnresolvedIdentifier}
import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.catalyst.util.quoteIdentifier
import org.apache.spark.sql.connector.catalog.{Table, TableCatalog, TableChange}
import org.apache.spark.sql.functions.{lit, struct, transform, transform_keys, transform_values, when}
import org.apache.spark.sql.tailrace.{SparkPlans, SparkSession}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

import io.tailrace.common.Errors.{refuse, stateError}
import io.tailrace.common._
import io.tailrace.plan.Columns

/** @param catalog  a class of the format's library
  * @param library  its Maven coordinates
  * @param settings that a session needs
  */
sealed abstract class TableFormat(
    val name: String,
    val catalog: String,
    val library: String,
    val settings: String
) extends Choice {

  /** @throws io.tailrace.common.TailraceAnalysisException if the argument `table` names no table of the format */
  def checkName(arguments: Arguments, table: String): Unit = {
    val allowsPath = this == TableFormat.Delta
    if (table.trim.isEmpty || (TargetTable.isPath(table) && !allowsPath))
      throw arguments.invalid("table", table, s"the name of a table${if (allowsPath) ", or a path" else ""}")
  }
}

object TableFormat {
  private def spark = SPARK_VERSION.split('.').take(2).mkString(".")

  case object Delta
      extends TableFormat(
        "delta",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        s"io.delta:delta-spark_${TableFormat.spark}_2.13",
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, " +
          "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
      )
  case object Iceberg
      extends TableFormat(
        "iceberg",
        "org.apache.iceberg.spark.SparkCatalog",
        s"org.apache.iceberg:iceberg-spark-runtime-${TableFormat.spark}_2.13",
        "spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog, and the type of that catalog"
      )
  val all: Seq[TableFormat] = Seq(Delta, Iceberg)
}

/** The user's settings of the writer of a stream into a table.
  *
  * @param partitionColumns of a table that is made
  * @param evolves whether columns are added to the table
  * @param options of the table's format
  */
private[tailrace] final case class TableWriter(
    partitionColumns: Seq[String],
    evolves: Boolean,
    options: Map[String, String]
)

private[tailrace] object TableWriter {
  private val MergeSchema = "mergeschema"
  private val OfQuery = Set("checkpointlocation", "queryname", MergeSchema)

  /** @param parameters of the sink; their names have any case */
  def of(
      arguments: Arguments,
      parameters: Map[String, String],
      partitionColumns: Seq[String]
  ): TableWriter = {
    val found = parameters.map { case (key, value) => key.toLowerCase(Locale.ROOT) -> value }
    val evolves = found.get(MergeSchema).map { text =>
      text.toBooleanOption.getOrElse(throw arguments.invalid("mergeSchema", text, "'true' or 'false'"))
    }
    val ofFormat = found.filterNot { case (key, _) => key.startsWith("tailrace.") || OfQuery(key) }
    TableWriter(partitionColumns, evolves.getOrElse(false), ofFormat)
  }
}

/** The table that a query writes to, in one session.
  *
  * @param named its name, or its path
  */
private[tailrace] final class TargetTable(
    val session: SparkSession,
    named: String,
    val format: TableFormat
) {
  private lazy val parts: Seq[String] =
    if (TargetTable.isPath(named))
      Seq(format.name, LiteralPath.qualified(named, session.sessionState.newHadoopConf()).toString)
    else session.sessionState.sqlParser.parseMultipartIdentifier(named)

  private lazy val (catalog, identifier) =
    session.sessionState.analyzer.execute(UnresolvedIdentifier(parts)) match {
      case ResolvedIdentifier(catalog: TableCatalog, identifier) => (catalog, identifier)
      case _ => throw TableErrors.notMade(named, s"${parts.head} is no catalog with tables")
    }

  /** In SQL. */
  lazy val name: String = TargetTable.quoted(parts)

  def load(): Table = catalog.loadTable(identifier)

  /** As they are now: Iceberg's catalog keeps a table that it has loaded, while others change its columns. */
  lazy val columns: StructType = {
    catalog.invalidateTable(identifier)
    schema()
  }

  private def schema() = StructType(load().columns.map(column => StructField(column.name, column.dataType)))

  /** The same in the session of a query, which has catalogs of its own. */
  def in(other: SparkSession): TargetTable = new TargetTable(other, wholeName, format)

  /** With its catalog: a session's current catalog and database aren't those of its queries. */
  lazy val wholeName: String = TargetTable.quoted(whole)

  private def whole =
    if (TargetTable.isPath(named)) parts
    else catalog.name +: identifier.namespace.toSeq :+ identifier.name

  /** Makes the table if there is none, adds columns to it if the writer says so, and checks that rows fit. */
  def open(rows: StructType, writer: TableWriter): Unit = diagnosed {
    // Iceberg's catalog keeps tables that it has loaded: the user's session would not see what the query writes.
    in(SparkPlans.copyOf(session)).opened(rows, writer)
  }

  private def opened(rows: StructType, writer: TableWriter): Unit = {
    if (!catalog.tableExists(identifier)) make(rows, writer.partitionColumns)
    checkFormat()
    val unfit = TableColumns.unfit(rows, schema(), Nil, session.sessionState.conf.resolver)
    val (added, others) = unfit.partition(_.table.isEmpty)
    if (others.nonEmpty || (added.nonEmpty && !writer.evolves))
      throw TableErrors.columns(named, unfit.map(_.text))
    if (added.nonEmpty) {
      val changes =
        added.map(one => TableChange.addColumn(one.path.toArray, SparkPlans.nullable(one.rows), true))
      catalog.alterTable(identifier, changes: _*): Unit
    }
  }

  private def checkFormat(): Unit = {
    val provider = Option(load().properties.get(TableCatalog.PROP_PROVIDER))
    provider
      .filterNot(_.equalsIgnoreCase(format.name))
      .foreach(other => throw TableErrors.format(named, other, format))
  }

  private def make(rows: StructType, partitionColumns: Seq[String]): Unit = {
    val written = StructType(
      SparkPlans.nullable(rows).asInstanceOf[StructType].map(f => StructField(f.name, f.dataType))
    )
    val by =
      if (partitionColumns.isEmpty) ""
      else s"PARTITIONED BY (${partitionColumns.map(quoteIdentifier).mkString(", ")})"
    session.sql(s"CREATE TABLE IF NOT EXISTS $name (${written.toDDL}) USING ${format.name} $by"): Unit
  }

  private def checkLibrary(): Unit = {
    val loader = Thread.currentThread.getContextClassLoader
    if (Try(Class.forName(format.catalog, false, loader)).isFailure) throw TableErrors.library(named, format)
  }

  /** Itself, if there is such a table. */
  def found: Option[TargetTable] = diagnosed {
    checkLibrary()
    Option.when(catalog.tableExists(identifier)) {
      checkFormat()
      this
    }
  }

  private def diagnosed[T](body: => T): T =
    try body
    catch {
      case refused: TailraceAnalysisException => throw refused
      // The library is one for another minor version of Spark.
      case _: LinkageError => throw TableErrors.library(named, format)
      case NonFatal(e) =>
        checkLibrary()
        throw TableErrors.notMade(named, Option(e.getMessage).getOrElse(e.toString).linesIterator.next())
    }

  /** The table's name of a column. */
  def nameOf(column: String): String =
    columns.names.find(session.sessionState.conf.resolver(_, column)).getOrElse(column)

  /** Rows with the table's names and types. Columns that they lack are null, if the format doesn't fill them by itself.
    *
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_TABLE_COLUMNS: the table has changed since [[open]]
    */
  def fitted(rows: DataFrame): DataFrame = {
    val resolver = session.sessionState.conf.resolver
    val unfit = TableColumns.unfit(rows.schema, columns, Nil, resolver)
    if (unfit.nonEmpty) throw TableErrors.columns(named, unfit.map(_.text))
    val found = columns.flatMap { column =>
      val own = rows.schema.find(field => resolver(field.name, column.name))
      def lacking = Option.when(format == TableFormat.Iceberg)(lit(null).cast(column.dataType))
      own
        .map(field => TableColumns.fit(Columns.named(field.name), field.dataType, column.dataType, resolver))
        .orElse(lacking)
        .map(_.as(column.name))
    }
    rows.select(found: _*)
  }
}

private[tailrace] object TargetTable {

  /** A name in SQL has no slash but in backticks. */
  def isPath(text: String): Boolean = text.contains('/') && !text.contains('`')

  private def quoted(parts: Seq[String]): String = parts.map(quoteIdentifier).mkString(".")
}

/** A column of the rows, or a field in one, that the table doesn't have, or has with a type that can't store it.
  *
  * @param path  as in SQL's ALTER TABLE: `labels.element.kind`
  * @param table its type there
  */
private[tables] final case class UnfitColumn(path: Seq[String], rows: DataType, table: Option[DataType]) {
  def text: String =
    s"`${path.mkString(".")}` ${rows.sql}" + table.fold("")(of => s", which is ${of.sql} in the table")
}

private[tables] object TableColumns {
  private type SameName = (String, String) => Boolean

  def unfit(rows: DataType, table: DataType, path: Seq[String], same: SameName): Seq[UnfitColumn] =
    (rows, table) match {
      case (StructType(fields), StructType(known)) =>
        fields.toSeq.flatMap { field =>
          val at = path :+ field.name
          known.find(one => same(one.name, field.name)) match {
            case Some(one) => unfit(field.dataType, one.dataType, at, same)
            case None => Seq(UnfitColumn(at, field.dataType, None))
          }
        }
      case (ArrayType(element, _), ArrayType(known, _)) => unfit(element, known, path :+ "element", same)
      case (MapType(key, value, _), MapType(knownKey, knownValue, _)) =>
        unfit(key, knownKey, path :+ "key", same) ++ unfit(value, knownValue, path :+ "value", same)
      case _ =>
        val fits = isSame(rows, table) || Cast.canANSIStoreAssign(rows, table)
        Option.when(!fits)(UnfitColumn(path, rows, Some(table))).toSeq
    }

  /** A value with the type of the table: fields of structs go by their names. A value that the type can't store is an
    * error, as in Spark's own INSERT, also in a session without ANSI mode.
    */
  def fit(value: Column, rows: DataType, table: DataType, same: SameName): Column = (rows, table) match {
    case _ if isSame(rows, table) => value
    case (StructType(fields), StructType(known)) =>
      val found = known.toSeq.map { one =>
        val own = fields.find(field => same(field.name, one.name))
        val of = own.map(field => fit(value.getField(field.name), field.dataType, one.dataType, same))
        of.getOrElse(lit(null).cast(one.dataType)).as(one.name)
      }
      when(value.isNotNull, struct(found: _*))
    case (ArrayType(element, _), ArrayType(known, _)) => transform(value, fit(_, element, known, same))
    case (MapType(key, of, _), MapType(knownKey, known, _)) =>
      val values =
        if (isSame(of, known)) value else transform_values(value, (_, v) => fit(v, of, known, same))
      if (isSame(key, knownKey)) values
      else transform_keys(values, (k, _) => fit(k, key, knownKey, same))
    case _ => SparkPlans.strictCast(value, table)
  }

  private def isSame(one: DataType, other: DataType) = SparkPlans.nullable(one) == SparkPlans.nullable(other)
}

/** The errors of tables. */
object TableErrors {
  def batch(): TailraceAnalysisException = refuse("TAILRACE_TABLE_BATCH")

  def library(table: String, format: TableFormat): TailraceAnalysisException = refuse(
    "TAILRACE_TABLE_LIBRARY",
    "table" -> table,
    "format" -> format.name,
    "library" -> format.library,
    "settings" -> format.settings
  )

  def notMade(table: String, reason: String): TailraceAnalysisException =
    refuse("TAILRACE_TABLE_NOT_MADE", "table" -> table, "reason" -> reason)

  /** @param other the format that it has */
  def format(table: String, other: String, format: TableFormat): TailraceAnalysisException =
    refuse("TAILRACE_TABLE_FORMAT", "table" -> table, "other" -> other, "format" -> format.name)

  def columns(table: String, unfit: Seq[String]): TailraceAnalysisException =
    refuse("TAILRACE_TABLE_COLUMNS", "table" -> table, "columns" -> unfit.mkString("; "))

  def keyNull(table: String, batch: Long, keys: Seq[String]): TailraceStateException =
    stateError(
      "TAILRACE_TABLE_KEY_NULL",
      null,
      "table" -> table,
      "batch" -> batch,
      "keys" -> keys.mkString(", ")
    )

  def twoWriters(table: String, batch: Long, cause: Throwable): TailraceStateException =
    stateError("TAILRACE_TABLE_TWO_WRITERS", cause, "table" -> table, "batch" -> batch)
}
