package io.tailrace.tables

import java.lang.reflect.Method
import java.util.Locale
import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.tailrace.SparkPlans

/** The commits of one query to a table, each of them once. They have numbers that grow:
  *
  * {{{
  *   Delta     the transaction has the query's id and the number: Delta skips one that it has
  *   Iceberg   the summary of the snapshot has them: we look for them
  * }}}
  *
  * So the table says which commits a run has made that was killed. Only the newest can be one that the next run makes again:
  * that a table has got others is the error of two writers.
  *
  * @param query      the id by which the table tells the queries apart
  * @param counted    what the numbers count, a name in the summary of Iceberg's snapshots
  * @param options    of the table's format, for appends
  * @param twoWriters makes the error, of a number and a cause
  */
private[tailrace] final class TableCommits(
    table: TargetTable,
    query: String,
    counted: String,
    options: Map[String, String],
    twoWriters: (Long, Throwable) => Throwable
) extends Logging {
  import TableCommits._

  private val id = s"tailrace-$query"

  /** True if the commit with this number is the query's newest one in the table. */
  def has(number: Long): Boolean = {
    val found = newest
    if (found.exists(_ > number)) throw twoWriters(number, null)
    found.contains(number)
  }

  private def newest: Option[Long] = table.format match {
    case TableFormat.Delta => DeltaHistory.newest(table.load(), id)
    case TableFormat.Iceberg =>
      val ours = IcebergHistory.summaries(table.load()).filter(_.get(Query).contains(query))
      ours.flatMap(_.get(counted)).nextOption().map(_.toLong)
  }

  /** Appends rows.
    *
    * @param document for readers of the commit: Delta's `userMetadata`, a property of Iceberg's snapshot
    */
  def append(rows: DataFrame, number: Long, document: Option[String] = None): Unit = {
    checkNew(number)
    val begun = table.session.sparkContext.longAccumulator
    val parts = SparkPlans.execution(rows).toRdd.mapPartitions { part => begun.add(1); part }
    val marks = table.format match {
      case TableFormat.Delta =>
        Map("txnAppId" -> id, "txnVersion" -> number.toString) ++ document.map("userMetadata" -> _)
      case TableFormat.Iceberg =>
        summary(number, document).map { case (key, value) => s"snapshot-property.$key" -> value }
    }
    val own = marks.keySet.map(_.toLowerCase(Locale.ROOT))
    val ofUser = options.filterNot { case (key, _) => own(key.toLowerCase(Locale.ROOT)) }
    val frame = SparkPlans.frameOf(table.session, parts, rows.schema)
    once(number)(frame.writeTo(table.name).options(ofUser ++ marks).append())
    // Delta has skipped it, and no task has begun.
    if (begun.isZero && parts.getNumPartitions > 0) throw twoWriters(number, null)
  }

  /** Runs a statement of `MERGE`, which takes the marks of its commit from the session. */
  def merge(statement: String, number: Long): Unit = {
    checkNew(number)
    val marks = table.format match {
      case TableFormat.Delta =>
        Map("txnAppId" -> id, "txnVersion" -> number.toString).map { case (key, value) =>
          s"spark.databricks.delta.write.$key" -> value
        }
      case TableFormat.Iceberg =>
        summary(number, None).map { case (key, value) =>
          s"spark.sql.iceberg.snapshot-property.$key" -> value
        }
    }
    val conf = table.session.conf
    marks.foreach { case (key, value) => conf.set(key, value) }
    val result =
      try once(number)(repeated(number)(table.session.sql(statement).collect()))
      finally marks.keys.foreach(conf.unset)
    // A MERGE of Delta's returns how many rows it has changed, unless it was skipped.
    if (table.format == TableFormat.Delta && result.isEmpty) throw twoWriters(number, null)
  }

  private def summary(number: Long, document: Option[String]) =
    Map(Query -> query, counted -> number.toString) ++ document.map(Document -> _)

  /** Iceberg itself skips nothing. */
  private def checkNew(number: Long): Unit =
    if (table.format == TableFormat.Iceberg && has(number)) throw twoWriters(number, null)

  /** A MERGE fails if another query has changed rows of the table that it has read. Nothing is written then. */
  private def repeated[T](number: Long)(write: => T): T = {
    def attempt(left: Int): Either[Throwable, T] =
      try Right(write)
      catch { case NonFatal(e) if left > 0 && causes(e).exists(isConflict) => Left(e) }
    @tailrec def from(left: Int): T = attempt(left) match {
      case Right(done) => done
      case Left(conflict) =>
        logInfo(s"commit $number into ${table.name} is tried again: another one was in between", conflict)
        Thread.sleep(ThreadLocalRandom.current.nextLong(MostMillis))
        checkNew(number)
        from(left - 1)
    }
    from(Attempts - 1)
  }

  private def once[T](number: Long)(write: => T): T =
    try write
    catch {
      case NonFatal(e) if causes(e).exists(_.getClass.getSimpleName == SameTransaction) =>
        throw twoWriters(number, e)
    }

  private def causes(of: Throwable) = Iterator.iterate(of)(_.getCause).takeWhile(_ != null).take(20)
}

private[tailrace] object TableCommits {
  private val Query = "tailrace.query"
  private val Document = "tailrace.document"

  /** Delta's error of a commit beside another one with the same application id. */
  private val SameTransaction = "ConcurrentTransactionException"

  /** Delta's errors of rows that a MERGE has read, and that another commit has changed meanwhile. */
  private val Conflicts =
    Set("ConcurrentAppendException", "ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException")

  /** Iceberg's, of all that a commit must not do. */
  private val Invalid = "ValidationException"
  private val Attempts = 10
  private val MostMillis = 1000L

  private def isConflict(e: Throwable) = {
    val name = e.getClass.getSimpleName
    Conflicts(name) || (name == Invalid && Option(e.getMessage).exists(_.contains("conflicting")))
  }

  /** The documents of a table's commits, of all queries. The table forgets commits at some time. */
  def documents(table: TargetTable): Seq[String] = table.format match {
    case TableFormat.Delta =>
      val history = table.session.sql(s"DESCRIBE HISTORY ${table.name}").select("userMetadata")
      history.collect().toSeq.flatMap(row => Option(row.getString(0)))
    case TableFormat.Iceberg => IcebergHistory.summaries(table.load()).flatMap(_.get(Document)).toSeq
  }
}

// The libraries aren't on the class path that Tailrace is built with.

/** The transactions of a Delta table. */
private object DeltaHistory {
  import LibraryCalls.call

  /** The newest version of an application's transactions. */
  def newest(table: Table, id: String): Option[Long] =
    call(call(table, "update"), "transactions").asInstanceOf[Map[String, Long]].get(id)
}

/** The snapshots of an Iceberg table. */
private object IcebergHistory {
  import LibraryCalls.call

  /** The summaries of the snapshots from the current one to its parents, as Iceberg's own sink follows them. */
  def summaries(table: Table): Iterator[Map[String, String]] = {
    val iceberg = call(table, "table")
    call(iceberg, "refresh")
    def snapshot(of: AnyRef) = call(iceberg, "snapshot", of)
    val newest = Option(call(table, "branch")).fold(call(iceberg, "currentSnapshot"))(snapshot)
    Iterator
      .iterate(newest)(one => Option(call(one, "parentId")).map(snapshot).orNull)
      .takeWhile(_ != null)
      .map(call(_, "summary").asInstanceOf[java.util.Map[String, String]].asScala.toMap)
  }
}

private object LibraryCalls {
  def call(of: AnyRef, name: String, arguments: AnyRef*): AnyRef = {
    val types = arguments.map { case _: java.lang.Long => classOf[Long]; case other => other.getClass }
    def fits(m: Method) = m.getName == name && m.getParameterTypes.toSeq == types
    val method = of.getClass.getMethods.find(fits).get
    method.setAccessible(true)
    method.invoke(of, arguments: _*)
  }
}
