package io.tailrace.watermark

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.types._

/** `parse_watermark_stamp(binary)`: a struct of `low_watermark`, null while there is none, and `completeness`; null if the
  * bytes aren't a [[WatermarkStamp]].
  */
case class ParseWatermarkStamp(stamp: Expression)
    extends Expression
    with RuntimeReplaceable
    with ImplicitCastInputTypes {
  override def children: Seq[Expression] = Seq(stamp)
  override def inputTypes: Seq[DataType] = Seq(BinaryType)
  override def prettyName: String = "parse_watermark_stamp"

  override lazy val replacement: Expression =
    StaticInvoke(StampExpressions.getClass, ParseWatermarkStamp.Schema, "parse", children, inputTypes)

  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(c(0))
}

object ParseWatermarkStamp {
  val Schema: StructType = new StructType()
    .add("low_watermark", TimestampType)
    .add("completeness", DecimalType(19, 18), nullable = false)
}

/** What generated code calls. */
object StampExpressions {
  def parse(stamp: Array[Byte]): InternalRow =
    if (!WatermarkStamp.isValid(stamp)) null
    else {
      val low = WatermarkStamp.low(stamp)
      InternalRow(
        if (low == HostTable.Never) null else low,
        Decimal(WatermarkStamp.share(stamp), 19, 18)
      )
    }
}
