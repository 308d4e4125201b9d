package io.tailrace.api

import java.util

import scala.jdk.CollectionConverters._

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.tailrace.SparkPlans
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Dataset, SparkSession}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}
import org.json4s.jackson.Serialization
import org.json4s.{Extraction, JBool, JField, JInt, JObject, JString, JValue, NoTypeHints}

import io.tailrace.asof.AsOfOptions
import io.tailrace.common.{Arguments, CallDocument, Errors}
import io.tailrace.examples.{ExampleFeatures, ExampleLabel, ExampleOptions}
import io.tailrace.label.{JoinOptions, SampledState}
import io.tailrace.ops.backfill.{Backfill, BackfillPlan, BackfilledStream, Slices}
import io.tailrace.ops.erase.EraseOptions
import io.tailrace.ops.exchange.{ImportOptions, ImportReport}
import io.tailrace.plan.Columns
import io.tailrace.recursion.RecursionOptions
import io.tailrace.replay.ReplayOptions
import io.tailrace.sync.SyncOptions
import io.tailrace.tables.TableOptions
import io.tailrace.testing.{CheckpointFaults, ReadableRows, TestStreams}
import io.tailrace.watermark.WatermarkOptions
import io.tailrace.windows.WindowOptions

/** The entry for Python, by py4j and over Spark Connect. A call is a name, and a [[CallDocument]] of its arguments:
  *
  * {{{
  *   tailrace.join(left, right, on="user", after=timedelta(minutes=30), ...)
  *     ->  call(session, "join", {"left": {"frame": 0}, "after": 1800000000, ...}, [left, right], [])
  * }}}
  *
  * Calls have the names of Python's functions.
  */
object PythonApi {

  /** The versions that Python compares with its own before any other call, also with those of an older jar. */
  def versions(): util.Map[String, String] = Map(
    "tailrace" -> SessionCheck.tailraceVersion,
    "builtForSpark" -> SessionCheck.builtForSpark,
    "spark" -> SPARK_VERSION,
    "scala" -> scala.util.Properties.versionNumberString,
    "java" -> System.getProperty("java.version")
  ).asJava

  /** Throws an error that says what is missing and what to do. */
  def checkSession(session: SparkSession): Unit = SessionCheck.check(session)

  /** @param json    the arguments, see [[CallDocument]]
    * @param frames  the DataFrames of the arguments, by their numbers; likewise `columns`
    * @return a DataFrame, an object of a test, or any other answer as JSON
    */
  def call(
      session: SparkSession,
      name: String,
      json: String,
      frames: util.List[DataFrame],
      columns: util.List[Column]
  ): AnyRef = {
    SessionCheck.check(session)
    val decoder = plans.orElse(objects).orElse(answers).applyOrElse(name, unknown)
    CallDocument.read(s"tailrace.$name", json, frames.asScala.toSeq, columns.asScala.toSeq)(decoder)(session)
  }

  /** True if a call gives a DataFrame. */
  def plans(name: String): Boolean = plans.contains(name)

  /** True if a call gives an object of a test. */
  def holds(name: String): Boolean = objects.contains(name)

  private def unknown(name: String): Nothing = throw Errors.callUnknown(name)

  /** Decodes all arguments of a call, and then makes it. */
  private type Decoder[+T] = CallDocument => SparkSession => T

  private val plans: Map[String, Decoder[DataFrame]] = Map(
    "join" -> ofSides(JoinOptions.of)(Tailrace.join),
    "as_of" -> { document =>
      val initial = document.get("initial").map(_.frame)
      ofSides(AsOfOptions.of)(Tailrace.asOf(_, _, _, _, initial))(document)
    },
    "sync_join" -> ofSides(SyncOptions.of)(Tailrace.syncJoin),
    "examples" -> { document =>
      val impressions = document("impressions").frame
      val labels =
        document("labels").list.map(_.document).map(one => one("frame").frame -> ExampleLabel.of(one))
      val features = document("features").list
        .map(_.document)
        .map(one => (one("frame").frame -> ExampleFeatures.of(one), one.get("initial").map(_.frame)))
      val initial = features.collect { case ((_, one), Some(table)) => one.name -> table }.toMap
      val options = ExampleOptions.of(document)
      _ => Tailrace.examples(impressions, options, features.map(_._1), initial)(labels: _*)
    },
    "filter_replays" -> { document =>
      val (rows, options) = (frame(document), ReplayOptions.of(document))
      _ => Tailrace.filterReplays(rows, options)
    },
    "accurate_watermark" -> { document =>
      val (rows, time, host) = (frame(document), document("event_time").text, document("host").text)
      val options = WatermarkOptions.of(document, isStamped = false)
      _ => Tailrace.accurateWatermark(rows, time, host, options)
    },
    "stamp_watermark" -> { document =>
      val (rows, into) = (frame(document), document("into").text)
      _ => Tailrace.stampWatermark(rows, into)
    },
    "stamped_watermark" -> { document =>
      val (rows, time, stamp) = (frame(document), document("event_time").text, document("stamp").text)
      val partition = document("partition").texts
      val options = WatermarkOptions.of(document, isStamped = true)
      _ => Tailrace.stampedWatermark(rows, time, stamp, partition, options)
    },
    // The rows that Python's writer of the format `tailrace-windows` writes.
    "write_windows" -> { document =>
      val (rows, path, time) = (frame(document), document("path").text, document("event_time").text)
      val options = WindowOptions.of(document)
      _ => Tailrace.landedWindows(rows, path, time, options)
    },
    // The rows that Python's writer of the format `tailrace-table` writes.
    "write_table" -> { document =>
      val (rows, table, options) = (frame(document), document("table").text, TableOptions.of(document))
      _ => Tailrace.checkedForTable(rows, table, options)
    },
    "window_report" -> { document =>
      val (path, format) = (document("path").text, document("format").text)
      Tailrace.windowReport(_, path, format)
    },
    // Two calls with the same id, below zero: without the result of op it is the DataFrame to call op with.
    "recursively" -> { document =>
      val (rows, id, result) = (frame(document), document("id").long, document.get("result").map(_.frame))
      val options = RecursionOptions.of(document)
      _ => {
        val call = Tailrace.beginRecursion(rows, options, Some(id))
        result.fold(call.argument)(call.result)
      }
    },
    // A table as a stream of its slices.
    "backfill_stream" -> { document =>
      val (table, live) = (frame(document), document("live").frame)
      val (name, time) = (document("name").text, document("event_time").text)
      val (slices, until) = (Slices(startsOf(document)), document.get("until").map(_.long))
      _ => Backfill.stream(name, table, live, time, slices, until)
    },
    // A batch DataFrame with values that Arrow and Python have.
    "readable" -> { document =>
      val rows = frame(document)
      _ => ReadableRows.of(rows)
    }
  )

  private def startsOf(document: CallDocument): IndexedSeq[Long] =
    document("starts").list.map(_.long).toIndexedSeq

  private def frame(document: CallDocument): DataFrame = document("frame").frame

  private def ofSides[O, T](optionsOf: CallDocument => O)(
      made: (DataFrame, DataFrame, Seq[(String, String)], O) => T
  ): Decoder[T] = { document =>
    val (left, right, on) = (document("left").frame, document("right").frame, document("on").pairs)
    val options = optionsOf(document)
    _ => made(left, right, on, options)
  }

  private val objects: Map[String, Decoder[AnyRef]] = Map(
    "test_streams" -> { document =>
      val startMs = document("start_ms").long
      new TestStreams(_, startMs)
    },
    "checkpoint_faults" -> (_ => _ => CheckpointFaults)
  )

  private val answers: Map[String, Decoder[String]] = Map[String, Decoder[JValue]](
    "versions" -> { _ => _ =>
      JObject(versions().asScala.toList.map { case (of, version) => JField(of, JString(version)) })
    },
    // The name of a column that a user gave as a Column.
    "column_name" -> { document =>
      val (call, argument) = (document("call").text, document("argument").text)
      val (rows, column) = (frame(document), document("column").column)
      _ =>
        JString(
          Columns.nameOf(
            call,
            argument,
            column.toString,
            SparkPlans.analyzed(rows),
            SparkPlans.analyzed(rows.select(column))
          )
        )
    },
    "microseconds" -> { document =>
      val (arguments, argument) = (new Arguments(document("call").text), document("argument").text)
      val (value, least) = (document("value").duration, document("least").long)
      _ => JInt(arguments.duration(argument, value, least))
    },
    // Refuses a column that isn't there.
    "check_column" -> { document =>
      val (columns, argument, name) = (columnsOf(document), document("argument").text, document("name").text)
      _ => {
        columns.find(argument, name)
        JBool(true)
      }
    },
    // Refuses a column that isn't there, or is no timestamp with a time zone.
    "check_time" -> { document =>
      val (columns, argument, name) = (columnsOf(document), document("argument").text, document("name").text)
      _ => {
        columns.find(argument, name, TimestampType)
        JBool(true)
      }
    },
    "holds_groups" -> { document =>
      val (columns, label, times) = (columnsOf(document), document("label").text, document("times").texts)
      _ => JBool(holdsGroups(columns, label, times))
    },
    "sampled_state" -> ofSides { of =>
      val (leftTime, rightTime) = (of("left_time").text, of("right_time").text)
      JoinOptions(
        leftTime,
        rightTime,
        of("after").duration,
        of("before").duration,
        call = "tailrace.preflight"
      )
    } { (left, right, on, options) => sampledState(Tailrace.join(left, right, on, options)) }
  ).concat(offline).map { case (name, decoder) =>
    name -> ((document: CallDocument) => decoder(document).andThen(value => compact(render(value))))
  }

  /** Calls for the checkpoint of a stopped query. */
  private def offline: Map[String, Decoder[JValue]] = Map(
    "rescale" -> { document =>
      val (checkpoint, partitions) = (document("checkpoint").text, document("partitions").int)
      val (isDry, to) = (document("dry_run").flag, document.get("to").map(_.text))
      session => report(Tailrace.rescale(session, checkpoint, partitions, isDry, to))
    },
    "erase" -> { document =>
      val (checkpoint, options) = (document("checkpoint").text, EraseOptions.of(document))
      session => report(Tailrace.erase(session, checkpoint, options))
    },
    "begin_backfill" -> { document =>
      val (checkpoint, step) = (document("checkpoint").text, document("step").long)
      val streams = document("streams").list.map(_.document).map { one =>
        BackfilledStream(one("name").text, one("time").text, one.get("until").map(_.long))
      }
      val asked = BackfillPlan(streams, step, startsOf(document))
      val dry = document("dry").flag
      session => report(backfill(session, checkpoint).begin(asked, dry))
    },
    "backfill_state" -> { document =>
      val checkpoint = document("checkpoint").text
      session => report(backfill(session, checkpoint).state())
    },
    "hand_over" -> { document =>
      val checkpoint = document("checkpoint").text
      session => report(backfill(session, checkpoint).handOver())
    },
    "export_state" -> { document =>
      val (checkpoint, to, isDry) =
        (document("checkpoint").text, document("to").text, document("dry_run").flag)
      session => report(Tailrace.exportState(session, checkpoint, to, isDry))
    },
    // Without a query it is that of the export.
    "import_state" -> { document =>
      val (checkpoint, isDry) = (document("checkpoint").text, document("dry_run").flag)
      val directory = document.get("export").map(_.text)
      document.get("query").map(_.frame) match {
        case None =>
          val exported = document("export").text
          session => counts(Tailrace.importState(session, checkpoint, exported, isDry))
        case Some(query) =>
          val offsets = document("offsets").texts
          val (watermark, batch) = (document.get("watermark").map(_.long), document.get("batch").map(_.long))
          val sides = Option.when(directory.isEmpty)((document("left").frame, document("right").frame))
          session => {
            val rows = sides.fold(
              Tailrace.exportedRows(session, checkpoint, directory.get, offsets, watermark, batch)
            ) { case (left, right) =>
              ImportOptions(left, right, offsets, watermark.getOrElse(0L), batch.getOrElse(0L))
            }
            counts(Tailrace.importState(query, checkpoint, rows.copy(dryRun = isDry)))
          }
      }
    }
  )

  private def backfill(session: SparkSession, checkpoint: String) =
    new Backfill(SessionCheck.check(session), checkpoint)

  private def report(of: AnyRef): JValue = Extraction.decompose(of)(Serialization.formats(NoTypeHints))

  private def counts(of: ImportReport): JValue =
    ("batch" -> of.batch) ~ ("left" -> of.left) ~ ("right" -> of.right)

  private def columnsOf(document: CallDocument): Columns = {
    val rows = frame(document)
    new Columns(
      new Arguments(document("call").text),
      SparkPlans.analyzed(rows).output,
      SparkPlans.session(rows).sessionState.conf.resolver
    )
  }

  /** True if a column of labels holds groups, and not one label a row. Refuses columns that hold neither.
    *
    * @param times the fields of a label that have to be timestamps
    */
  private def holdsGroups(columns: Columns, label: String, times: Seq[String]): Boolean = {
    val column = columns.find("labels", label)
    val isLabel: DataType => Boolean = {
      case StructType(fields) =>
        times.forall(t => fields.exists(f => f.name == t && f.dataType == TimestampType))
      case _ => false
    }
    column.dataType match {
      case ArrayType(element, _) if isLabel(element) => true
      case one if isLabel(one) => false
      case _ =>
        val fields = times.mkString(" and ")
        throw columns.wrongType("labels", column, s"a struct, or an array of structs, with TIMESTAMP $fields")
    }
  }

  /** The state that the rows of samples take in a join: of the left side, then of the right side. */
  private def sampledState(joined: Dataset[_]): JValue = {
    val (left, right) = SampledState.of(joined.toDF())
    Seq(left, right).map { side =>
      ("rows" -> side.rows) ~ ("bytes" -> side.bytes) ~ ("file_bytes" -> side.fileBytes)
    }
  }
}
