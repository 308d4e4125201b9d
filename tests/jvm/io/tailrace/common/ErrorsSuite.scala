package io.tailrace.common

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.types._
import org.json4s.jackson.JsonMethods
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.connect.ConnectErrors
import io.tailrace.examples.ExampleErrors
import io.tailrace.explain.{LabelStreamFacts, StreamKind}
import io.tailrace.join.JoinErrors
import io.tailrace.ops.backfill.BackfillErrors
import io.tailrace.ops.erase.EraseErrors
import io.tailrace.ops.exchange.ExchangeErrors
import io.tailrace.ops.rescale.RescaleErrors
import io.tailrace.ops.rewrite.RewriteErrors
import io.tailrace.recursion.RecursionErrors
import io.tailrace.replay.{MetadataErrors, ReplayErrors}
import io.tailrace.sync.{HeldBy, PartitionCondition, SyncErrors}
import io.tailrace.tables.{TableErrors, TableFormat}
import io.tailrace.watermark.WatermarkErrors
import io.tailrace.windows.WindowErrors

final class ErrorsSuite extends AnyFunSuite {
  private val cause = new RuntimeException("the cause")

  private def column(name: String, dataType: DataType) = AttributeReference(name, dataType)()

  private val all: Map[String, Throwable] = Map(
    "TAILRACE_SESSION_EXTENSION_MISSING" -> Errors.extensionMissing(),
    "TAILRACE_CONNECT_CALL_UNKNOWN" -> Errors.callUnknown("C"),
    "TAILRACE_CONNECT_TESTING_OFF" -> ConnectErrors.testingOff(),
    "TAILRACE_SPARK_VERSION_MISMATCH" -> Errors.sparkVersionMismatch("B", "F"),
    "TAILRACE_EXAMPLES_CONDITION" ->
      ExampleErrors.condition("tailrace.examples", "where", "C", Seq("A"), ExampleErrors.noLabel()),
    "TAILRACE_EXAMPLES_EXCLUDES_FEATURES" -> ExampleErrors.excludesFeatures("F"),
    "TAILRACE_EXAMPLES_STALLED" ->
      JoinErrors.labelStalled(LabelStreamFacts(Seq("L"), None, 1000, isStalled = true, "fail", 1000)),
    "TAILRACE_EXAMPLES_IMPRESSIONS_CHANGE" -> ExampleErrors.impressionsChange("L"),
    "TAILRACE_EXAMPLES_NAME_EXISTS" -> ExampleErrors.nameExists("N"),
    "TAILRACE_EXAMPLES_WATERMARK_MISSING" -> JoinErrors.watermarkMissingOf("F", "C", Some("O")),
    "TAILRACE_EXAMPLES_NO_COMMON_KEY" -> ExampleErrors.noCommonKey(Seq("L" -> Seq("K"))),
    "TAILRACE_EXAMPLES_NO_LABEL" -> ExampleErrors.noLabel(),
    "TAILRACE_JOIN_WATERMARK_MISSING" -> JoinErrors.watermarkMissing(Side.Left, "C", Some("O")),
    "TAILRACE_JOIN_MIXED_BATCH_AND_STREAM" -> JoinErrors.mixedBatchAndStream(Side.Left, Side.Right),
    "TAILRACE_JOIN_LABEL_EMPTY" -> JoinErrors.labelEmpty("I"),
    "TAILRACE_JOIN_INITIAL_COLUMNS" -> JoinErrors.initialColumns("F", Seq("C INT")),
    "TAILRACE_JOIN_KEYS_MISSING" -> JoinErrors.keysMissing(),
    "TAILRACE_JOIN_KEY_TYPES_DIFFER" -> JoinErrors
      .keyTypesDiffer(column("L", IntegerType), column("R", StringType)),
    "TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED" -> JoinErrors.keyTypeUnsupported("C", "MAP"),
    "TAILRACE_JOIN_KEY_COLLATED" -> JoinErrors.keyCollated("C", "STRING COLLATE X"),
    "TAILRACE_JOIN_TIME_TYPES_DIFFER" ->
      JoinErrors.timeTypesDiffer(column("L", TimestampType), column("R", TimestampNTZType)),
    "TAILRACE_JOIN_CLOSES_IN_NO_BATCH" -> JoinErrors.closesInNoBatch("`idle_timeout`"),
    "TAILRACE_JOIN_STALLED" -> JoinErrors.sideStalled(
      LabelStreamFacts(Seq("left"), None, 1000, isStalled = true, "fail", 1000, StreamKind.JoinSide)
    ),
    "TAILRACE_JOIN_WATERMARK_SHARED" -> JoinErrors.watermarkShared("tailrace.join"),
    "TAILRACE_JOIN_OPTION_CONFLICT" -> JoinErrors.optionConflict("match", "V"),
    "TAILRACE_OPTION_INVALID" -> Errors.optionInvalid("tailrace.join", "how", "V", "A"),
    "TAILRACE_OPTION_CONFLICT" -> Errors.optionConflict("tailrace.join", "early", "V", "horizons", "R"),
    "TAILRACE_OPTION_NEEDS" -> Errors.optionNeeds("tailrace.join", "on_future", "V", "N"),
    "TAILRACE_COLUMN_NOT_FOUND" -> Errors.columnNotFound("tailrace.join", "on", "C", "F", Seq("A", "B")),
    "TAILRACE_COLUMN_AMBIGUOUS" -> Errors.columnAmbiguous("tailrace.join", "on", "C", "F"),
    "TAILRACE_COLUMN_NESTED" -> Errors.columnNested("tailrace.join", "on", "S.C", "F", "S"),
    "TAILRACE_COLUMN_EXPRESSION" -> Errors.columnExpression("tailrace.join", "on", "(a + 1)"),
    "TAILRACE_COLUMN_TYPE" -> Errors.columnType("tailrace.join", "on", "C", "F", "INT", "STRING"),
    "TAILRACE_COLUMN_EXISTS" -> Errors.columnExists("tailrace.join", "C", "F", "Rename it."),
    "TAILRACE_COLUMN_RESERVED" -> Errors.columnReserved("tailrace.join", "C", "P"),
    "TAILRACE_NAME_EXISTS" -> Errors.nameExists("tailrace.join", "N"),
    "TAILRACE_PATH_INVALID" -> Errors.pathInvalid("P", "R"),
    "TAILRACE_STATE_EXCHANGE_TYPES" -> ExchangeErrors.types(7, Seq("C INTERVAL")),
    "TAILRACE_OUTPUT_MODE_UNSUPPORTED" -> ModeErrors.output("O", "Update"),
    "TAILRACE_REAL_TIME_MODE_UNSUPPORTED" -> ModeErrors.realTime("O"),
    "TAILRACE_CONTINUOUS_MODE_UNSUPPORTED" -> ModeErrors.continuous("O"),
    "TAILRACE_ASYNC_PROGRESS_UNSUPPORTED" -> ModeErrors.asyncProgress("O"),
    "TAILRACE_CHECKPOINT_INCOMPATIBLE" -> Errors.checkpointIncompatible("P", Seq("a", "b")),
    "TAILRACE_CHECKPOINT_NOT_FOUND" -> Errors.checkpointNotFound("P"),
    "TAILRACE_CHECKPOINT_WITHOUT_BATCH" -> Errors.checkpointWithoutBatch("P"),
    "TAILRACE_CHECKPOINT_WITHOUT_JOIN" -> Errors.checkpointWithoutJoin("P", Seq("a", "b")),
    "TAILRACE_CHECKPOINT_VERSION_NOT_RETAINED" -> Errors.checkpointVersionNotRetained("P", 7, "1 to 3"),
    "TAILRACE_CONF_INVALID" -> Errors.confInvalid("K", "V", "E"),
    "TAILRACE_CONF_UNKNOWN" -> Errors.confUnknown("K", "N", Seq("N", "M")),
    "TAILRACE_FUNCTION_ARGUMENT_TYPE" -> Errors.functionArgumentType("f", "A", "STRING", "a number"),
    "TAILRACE_MEMORY_EXHAUSTED" -> MemoryErrors.exhausted(10, 20),
    "TAILRACE_MEMORY_GROUP" -> MemoryErrors.groupTooLarge(7, 900, cause),
    "TAILRACE_FUNCTION_ARGUMENTS" -> Errors.functionArguments("f(a)", 7),
    "TAILRACE_METADATA_MERGE" -> MetadataErrors.merge(),
    "TAILRACE_METADATA_ORDER" -> MetadataErrors.order("R"),
    "TAILRACE_METADATA_PARTITION" -> MetadataErrors.partition("R"),
    "TAILRACE_METADATA_SHARED" -> MetadataErrors.shared("R", "A"),
    "TAILRACE_METADATA_TOPIC_ANEW" -> MetadataErrors.topicAnew("T", "K", "F"),
    "TAILRACE_METADATA_MIXED" -> MetadataErrors.mixed("one", "two"),
    "TAILRACE_RECURSION_ARGUMENT_OUTSIDE" -> RecursionErrors.argumentOutside(),
    "TAILRACE_RECURSION_ARGUMENT_UNUSED" -> RecursionErrors.argumentUnused("N"),
    "TAILRACE_RECURSION_CHECKPOINT" -> RecursionErrors.checkpoint("L", Seq("a"), Seq("b"), Seq("L/b")),
    "TAILRACE_RECURSION_CYCLE" -> RecursionErrors.cycle("[1, 2, 1]"),
    "TAILRACE_RECURSION_ENDLESS" -> RecursionErrors.endless("N"),
    "TAILRACE_RECURSION_FEEDBACK_INCOMPLETE" -> RecursionErrors.feedbackIncomplete("D", 7),
    "TAILRACE_RECURSION_HELD_BACK" -> RecursionErrors.heldBack("N", "O", "R"),
    "TAILRACE_RECURSION_IDENTITY" -> RecursionErrors.identity("N"),
    "TAILRACE_RECURSION_LATE" -> RecursionErrors.late("N", 7, 8, "a=1"),
    "TAILRACE_RECURSION_MODE" -> RecursionErrors.mode("N", "fixpoint", "R"),
    "TAILRACE_RECURSION_NESTED" -> RecursionErrors.nested("N"),
    "TAILRACE_RECURSION_OPERATOR" -> RecursionErrors.operator("N", "O", "R"),
    "TAILRACE_RECURSION_REVISIONS" -> RecursionErrors.revisions("N", "update"),
    "TAILRACE_RECURSION_RUNAWAY" -> RecursionErrors.runaway("N", 9, "a=1"),
    "TAILRACE_RECURSION_SCHEMA" -> RecursionErrors.schema("N", Seq("a", "b")),
    "TAILRACE_RECURSION_SCHEMA_CHANGED" -> RecursionErrors.schemaChanged("F", "W", "E"),
    "TAILRACE_RECURSION_TOO_DEEP" -> RecursionErrors.tooDeep(3, 7, Seq("a=1", "a=2")),
    "TAILRACE_RECURSION_TOO_MANY_ROWS" -> RecursionErrors.tooManyRows(9, 3, Seq("a=1")),
    "TAILRACE_RECURSION_UNTRACKED" -> RecursionErrors.untracked("N", "max_depth", "O"),
    "TAILRACE_RECURSION_WATERMARK_POLICY" -> RecursionErrors.watermarkPolicy("N"),
    "TAILRACE_REPLAY_MARKS_INCOMPLETE" -> ReplayErrors.marksIncomplete("D", 7, "N"),
    "TAILRACE_REPLAY_MARKS_MISSING" -> ReplayErrors.marksMissing("D", 7, "N"),
    "TAILRACE_REPLAY_ORIGIN_MOVED" -> ReplayErrors.originMoved(5, 6, 7, 8, "A", "B"),
    "TAILRACE_REPLAY_ORIGIN_SPLIT" -> ReplayErrors.originSplit(5, 6, "A", "B"),
    "TAILRACE_STATE_FILE_MISSING" -> Errors.stateFileMissing("F", "batch 7", cause),
    "TAILRACE_STATE_COLUMNS_UNREADABLE" -> Errors.stateColumnsUnreadable("P", "a INT", "R"),
    "TAILRACE_STATE_FILE_CORRUPT" -> Errors.stateFileCorrupt("F", "R", cause),
    "TAILRACE_STATE_FORMAT_UNSUPPORTED" -> Errors.stateFormatUnsupported("F", 9, 2, 3),
    "TAILRACE_STATE_FILE_UNAVAILABLE" -> Errors.stateFileUnavailable("F", "read", cause),
    "TAILRACE_STATE_LOCAL_COPY" -> Errors.stateLocalCopy("F", "O", "R", cause),
    "TAILRACE_STATE_LOCAL_FILE" -> Errors.stateLocalFile("F", "C", "R", cause),
    "TAILRACE_STATE_ONLY_COPY" -> Errors.stateOnlyCopy("F", "R", cause),
    "TAILRACE_STATE_UNREADABLE" -> Errors.stateUnreadable("P", cause),
    "TAILRACE_STATE_OPERATION_UNSUPPORTED" -> Errors.stateOperationUnsupported("put"),
    "TAILRACE_SYNC_MAX_BUFFERED_UNSUPPORTED" -> SyncErrors.maxBufferedUnsupported(Side.Left, "files"),
    "TAILRACE_SYNC_NOT_STREAMING" -> SyncErrors.notStreaming(Side.Left),
    "TAILRACE_SYNC_PARTITION_MISSING" -> SyncErrors.partitionMissing(Side.Left, "left_partition", Seq("a")),
    "TAILRACE_STATE_PARTITIONS" -> Errors.statePartitions("P", 4, "16"),
    "TAILRACE_STATE_RESCALE_CUT_OFF" -> RescaleErrors.cutOff("P", 7, 4),
    "TAILRACE_STATE_RESCALE_IN_USE" -> RescaleErrors.inUse("P"),
    "TAILRACE_STATE_RESCALE_KEYS" -> RewriteErrors.keysUnreadable("P", "id", cause),
    "TAILRACE_BACKFILL_CHANGED" -> BackfillErrors.changed("P", "D"),
    "TAILRACE_BACKFILL_NAMED_SOURCES" -> BackfillErrors.namedSources(),
    "TAILRACE_BACKFILL_OTHER_QUERY" -> BackfillErrors.otherQuery("P"),
    "TAILRACE_BACKFILL_OTHER_SOURCE" -> BackfillErrors.otherSource("S"),
    "TAILRACE_BACKFILL_SINK" -> BackfillErrors.sink("S"),
    "TAILRACE_BACKFILL_UNFINISHED" -> BackfillErrors.unfinished("P", 3, 30),
    "TAILRACE_STATE_EXCHANGE_COLUMNS" -> ExchangeErrors.columns("left", Seq("a", "b")),
    "TAILRACE_STATE_EXCHANGE_EXISTS" -> RewriteErrors.destinationExists("P"),
    "TAILRACE_STATE_EXCHANGE_FAILED" -> RewriteErrors.failed("P", cause),
    "TAILRACE_STATE_EXCHANGE_INCOMPLETE" -> ExchangeErrors.incomplete("P", Seq("a", "b")),
    "TAILRACE_STATE_EXCHANGE_QUERY_NEEDED" -> ExchangeErrors.queryNeeded("P", Seq("a", "b")),
    "TAILRACE_STATE_EXCHANGE_UNFIT" -> ExchangeErrors.unfit("P", "R"),
    "TAILRACE_STATE_EXCHANGE_NO_EXPORT" -> ExchangeErrors.noExport("P"),
    "TAILRACE_STATE_EXCHANGE_ROWS" -> ExchangeErrors.rows("R"),
    "TAILRACE_STATE_EXCHANGE_UNSUPPORTED" -> ExchangeErrors.unsupported(Seq("a", "b")),
    "TAILRACE_STATE_IN_USE" -> RewriteErrors.inUse("P"),
    "TAILRACE_STATE_ERASE_AMBIGUOUS" -> EraseErrors.ambiguous("C", 0),
    "TAILRACE_STATE_ERASE_COLUMNS" -> EraseErrors.notOfJoin("C", 0, "left: a; right: b"),
    "TAILRACE_STATE_ERASE_CONDITION" -> EraseErrors.conditionInvalid("C", "R"),
    "TAILRACE_STATE_ERASE_CUT_OFF" -> EraseErrors.rescaleCutOff("P", 7),
    "TAILRACE_STATE_ERASE_LABEL_KEY" -> EraseErrors.ofLabel("C", "L", 0, Seq("a", "b")),
    "TAILRACE_STATE_ERASE_OTHERS" -> EraseErrors.otherOperators("P", Seq("a", "b")),
    "TAILRACE_STATE_ERASE_RECURSION" -> EraseErrors.rowsInFlight("P", Seq("a", "b")),
    "TAILRACE_STATE_ERASE_REMAINS" -> EraseErrors.remains("P", Seq("a", "b")),
    "TAILRACE_STATE_ERASE_TOUCHES" -> EraseErrors.touches("C", "L", 0, Seq("a", "b")),
    "TAILRACE_STATE_RESCALE_TOO_MANY" -> RescaleErrors.tooMany("rows"),
    "TAILRACE_STATE_RESCALE_OPEN_BATCH" -> RescaleErrors.open("P", 7, Seq("dedupe")),
    "TAILRACE_STATE_RESCALE_UNSUPPORTED" -> RescaleErrors.unsupported("P", Seq("dedupe")),
    "TAILRACE_SYNC_NAME_CHANGED" -> SyncErrors.nameChanged("clicks", Seq("views")),
    "TAILRACE_SYNC_FUTURE" -> SyncErrors.future(Side.Left, "clicks-1", 1L << 52, 1L << 51),
    "TAILRACE_SYNC_TOPICS_MERGED" -> SyncErrors.topicsMerged("clicks", Side.Left, Seq("a", "b")),
    "TAILRACE_SYNC_STALLED" -> SyncErrors
      .stalled("N", Side.Left, HeldBy("P", 0, Some(7000), 9, PartitionCondition.Stalled)),
    "TAILRACE_WATERMARK_FUTURE" -> WatermarkErrors.future("H", 1, 0),
    "TAILRACE_TABLE_BATCH" -> TableErrors.batch(),
    "TAILRACE_TABLE_COLUMNS" -> TableErrors.columns("T", Seq("A", "B")),
    "TAILRACE_TABLE_FORMAT" -> TableErrors.format("T", "O", TableFormat.Delta),
    "TAILRACE_TABLE_KEY_NULL" -> TableErrors.keyNull("T", 7, Seq("A", "B")),
    "TAILRACE_TABLE_LIBRARY" -> TableErrors.library("T", TableFormat.Iceberg),
    "TAILRACE_TABLE_NOT_MADE" -> TableErrors.notMade("T", "R"),
    "TAILRACE_TABLE_TWO_WRITERS" -> TableErrors.twoWriters("T", 7, cause),
    "TAILRACE_WINDOWS_SINK" -> WindowErrors.sink("F", "S"),
    "TAILRACE_WATERMARK_PROGRESS_MISSING" -> WatermarkErrors.progressMissing("D", 7),
    "TAILRACE_WATERMARK_OPERATOR_EXISTS" -> WatermarkErrors.operatorExists("O", "A"),
    "TAILRACE_WATERMARK_REPORTER_CONFLICT" -> WatermarkErrors.reporterConflict("S", "A", "D"),
    "TAILRACE_WATERMARK_RUN_REPLACED" -> WatermarkErrors.runReplaced("S", "A", "D"),
    "TAILRACE_WATERMARK_STAMP_SOURCE" -> WatermarkErrors.stampSource(),
    "TAILRACE_WATERMARK_STORES_DIFFER" -> WatermarkErrors.storesDiffer("S", "1", "T", "2"),
    "TAILRACE_WINDOWS_BATCH" -> WindowErrors.batch(),
    "TAILRACE_WINDOWS_FILE_MISSING" -> WindowErrors.fileMissing("F", "T", 7),
    "TAILRACE_WINDOWS_FOLDER" -> WindowErrors.folder("P", "R"),
    "TAILRACE_WINDOWS_LEFT" -> WindowErrors.left("P", 6, 3),
    "TAILRACE_WINDOWS_NOT_FOUND" -> WindowErrors.notFound("P"),
    "TAILRACE_WINDOWS_ROWS_MISSING" -> WindowErrors.rowsMissing("D", "T", 6, 7),
    "TAILRACE_WINDOWS_ROLLED_BACK" -> WindowErrors.rolledBack("P", 6, 7),
    "TAILRACE_WINDOWS_SERVER" -> WindowErrors.server("S", "A", Seq("N", "M")),
    "TAILRACE_WINDOWS_SOURCE" -> WindowErrors.source(),
    "TAILRACE_WINDOWS_TWO_WRITERS" -> WindowErrors.twoWriters("P", cause),
    "TAILRACE_WINDOWS_WATERMARK_MISSING" -> WindowErrors.watermarkMissing("C", Some("D"))
  )

  // Those that only a running query meets.
  private val stateConditions =
    all.keySet.filter(_.startsWith("TAILRACE_STATE_")) --
      Seq("AMBIGUOUS", "COLUMNS", "CONDITION", "LABEL_KEY", "TOUCHES").map("TAILRACE_STATE_ERASE_" + _) --
      Seq(
        "COLUMNS",
        "EXISTS",
        "INCOMPLETE",
        "NO_EXPORT",
        "QUERY_NEEDED",
        "ROWS",
        "TYPES",
        "UNFIT",
        "UNSUPPORTED"
      ).map("TAILRACE_STATE_EXCHANGE_" + _) ++
      Seq("FUTURE", "NAME_CHANGED", "STALLED").map("TAILRACE_SYNC_" + _) ++
      Seq("FUTURE", "PROGRESS_MISSING").map("TAILRACE_WATERMARK_" + _) ++
      Seq("MARKS_INCOMPLETE", "MARKS_MISSING", "ORIGIN_MOVED", "ORIGIN_SPLIT").map("TAILRACE_REPLAY_" + _) ++
      Seq(
        "TAILRACE_JOIN_STALLED",
        "TAILRACE_EXAMPLES_STALLED",
        "TAILRACE_MEMORY_GROUP",
        "TAILRACE_METADATA_MIXED"
      ) ++
      Seq("REPORTER_CONFLICT", "RUN_REPLACED", "STORES_DIFFER").map("TAILRACE_WATERMARK_" + _) ++
      Seq("FILE_MISSING", "LEFT", "ROLLED_BACK", "ROWS_MISSING", "TWO_WRITERS").map(
        "TAILRACE_WINDOWS_" + _
      ) ++
      Seq("KEY_NULL", "TWO_WRITERS").map("TAILRACE_TABLE_" + _) ++
      Seq("CYCLE", "FEEDBACK_INCOMPLETE", "LATE", "RUNAWAY", "SCHEMA_CHANGED", "TOO_DEEP", "TOO_MANY_ROWS")
        .map("TAILRACE_RECURSION_" + _)

  private def thrown(condition: String): SparkThrowable = all(condition) match {
    case e: SparkThrowable => e
    case e => fail(s"$condition is a ${e.getClass.getName}")
  }

  test("every condition of the file has a method that raises it, and none is raised that the file lacks") {
    val stream = getClass.getResourceAsStream("/error/tailrace-error-conditions.json")
    val declared =
      try JsonMethods.parse(new String(stream.readAllBytes(), "UTF-8")).values.asInstanceOf[Map[String, Any]]
      finally stream.close()
    assert(all.keySet == declared.keySet)
  }

  test("every public method that makes an error is tried here") {
    val methods = Seq(
      Errors,
      ConnectErrors,
      JoinErrors,
      ExampleErrors,
      MemoryErrors,
      MetadataErrors,
      ModeErrors,
      RecursionErrors,
      ReplayErrors,
      BackfillErrors,
      EraseErrors,
      ExchangeErrors,
      RescaleErrors,
      RewriteErrors,
      SyncErrors,
      TableErrors,
      WatermarkErrors,
      WindowErrors
    )
      .flatMap(_.getClass.getDeclaredMethods)
      // What makes errors for the methods of all.
      .filterNot(m => m.getName == "refuse" || m.getName == "stateError")
      .filter(m => classOf[Throwable].isAssignableFrom(m.getReturnType) && !m.getName.contains("$"))
      .filter(m => java.lang.reflect.Modifier.isPublic(m.getModifiers))
    assert(methods.map(m => (m.getDeclaringClass, m.getName)).distinct.size == all.size)
  }

  all.keys.toSeq.sorted.foreach { condition =>
    test(s"$condition: condition, SQL state, and a text without holes") {
      val error = thrown(condition)
      assert(error.getCondition == condition)
      assert(error.getSqlState.matches("[0-9A-Z]{5}"))
      val message = all(condition).getMessage
      assert(message.startsWith(s"[$condition] "))
      assert("<[A-Za-z]+>".r.findFirstIn(message).isEmpty, message)
      error.getMessageParameters.asScala.foreach { case (name, value) =>
        assert(message.contains(value), s"$name is not in: $message")
      }
    }
  }

  test(
    "a parameter that ends with a full stop, such as the text of another library, ends no sentence twice"
  ) {
    all.foreach { case (condition, error) =>
      val names = error.asInstanceOf[SparkThrowable].getMessageParameters.asScala.keys
      val text = Errors.message(condition, names.map(_ -> "It failed.\n").toMap)
      assert(!text.replace("...", "").contains(".."), condition)
      // A reason without a full stop ends its sentence, too.
      val unended = names.map(name => name -> (if (name == "reason") "It failed" else "V")).toMap
      assert("It failed(?![.:;,)])".r.findFirstIn(Errors.message(condition, unended)).isEmpty, condition)
    }
    val columns = Errors.columnNotFound("tailrace.join", "on", "C", "F", Seq("a", "...")).getMessage
    assert(columns.endsWith("Name one of these: a, ...."))
  }

  test("a refusal before a query starts is an analysis error, damage to state isn't") {
    all.foreach { case (condition, error) =>
      assert(error.isInstanceOf[TailraceStateException] == stateConditions(condition), condition)
      val beforeAll = !stateConditions(condition) && !error.isInstanceOf[RowMemoryExhausted]
      assert(error.isInstanceOf[TailraceAnalysisException] == beforeAll, condition)
    }
  }

  test("an empty value is said to be empty, and any other one is quoted") {
    def text(value: String) = Errors.optionInvalid("tailrace.join", "into", value, "a name").getMessage
    assert(text("").contains("`into` of tailrace.join is empty. It has to be a name."))
    assert(text("empty").contains("`into` of tailrace.join is 'empty'. It has to be a name."))
  }

  test("the cure of a refused key fits every type, and two of one name are told to be of one call") {
    val key = all("TAILRACE_JOIN_KEY_TYPE_UNSUPPORTED").getMessage
    assert(key.contains("cast this one, for instance to STRING") && !key.contains("variants"))
    val name = all("TAILRACE_NAME_EXISTS").getMessage
    assert(name.contains("Two operators of the query have the name `N`: tailrace.join has made both, or"))
  }

  test("state errors keep their cause") {
    assert(all("TAILRACE_STATE_FILE_MISSING").getCause eq cause)
    assert(all("TAILRACE_STATE_FILE_CORRUPT").getCause eq cause)
    assert(all("TAILRACE_STATE_UNREADABLE").getCause eq cause)
    assert(all("TAILRACE_STATE_FILE_UNAVAILABLE").getCause eq cause)
  }

  test("a side without a watermark on its time column is told where its watermark is, if it has one") {
    def other(e: Throwable) = e.asInstanceOf[SparkThrowable].getMessageParameters.get("other")
    assert(other(JoinErrors.watermarkMissing(Side.Left, "t", None)).isEmpty)
    assert(other(JoinErrors.watermarkMissing(Side.Left, "t", Some("u"))).contains("`u`"))
  }
}
