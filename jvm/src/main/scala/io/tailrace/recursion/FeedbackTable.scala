package io.tailrace.recursion

import java.util.{EnumSet, Set => JavaSet}

import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The rows that go round, as a source of the query that they are of. */
final class FeedbackTable(settings: RecursionSettings, columns: StructType) extends Table with SupportsRead {
  override def name(): String = HopReport.name(settings)
  override def schema(): StructType = columns
  override def capabilities(): JavaSet[TableCapability] = EnumSet.of(TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = columns
      override def description(): String = s"feedback of the recursion '${settings.name}'"
      override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
      override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream =
        FeedbackStream.of(settings, columns)
    }
}
