package io.tailrace.watermark

import java.math.{BigDecimal => Decimal, RoundingMode}
import java.nio.ByteBuffer

/** The share of hosts that must have passed a time before it is closed: above 0, at most 1. It is an exact
  * decimal number, not a binary fraction: 99.9 % of 1,000 hosts lets exactly one lag, not none or two.
  */
final class Completeness private (val ratio: Decimal) {

  /** The number of hosts that may lag: floor(hosts x (1 - ratio)). */
  def allowed(hosts: Int): Int =
    Decimal.ONE
      .subtract(ratio)
      .multiply(Decimal.valueOf(hosts.toLong))
      .setScale(0, RoundingMode.FLOOR)
      .intValueExact

  /** The completeness of data that is complete to this share upstream and to the other share here: the
    * product, rounded down to [[Completeness.MostDigits]] digits.
    */
  def andThen(other: Completeness): Completeness = {
    val product = ratio.multiply(other.ratio)
    val digits = Math.min(product.scale, Completeness.MostDigits)
    new Completeness(product.setScale(digits, RoundingMode.DOWN).max(Completeness.Least))
  }

  /** The share in units of 10^-18. */
  def units: Long = ratio.movePointRight(Completeness.MostDigits).longValueExact

  /** The smaller one. */
  def min(other: Completeness): Completeness = if (ratio.compareTo(other.ratio) <= 0) this else other

  /** A decimal number, for instance "0.999". */
  override def toString: String = ratio.stripTrailingZeros.toPlainString

  override def equals(other: Any): Boolean = other match {
    case that: Completeness => ratio.compareTo(that.ratio) == 0
    case _ => false
  }
  override def hashCode: Int = ratio.stripTrailingZeros.hashCode
}

object Completeness {

  /** The most digits after the point. */
  val MostDigits = 18

  private val Least = Decimal.valueOf(1, MostDigits)
  private val Number = """(\d{1,3}(?:\.\d{1,18})?)\s*(%?)""".r

  /** No host may lag. */
  val Whole: Completeness = new Completeness(Decimal.ONE)

  /** @param units of 10^-18, from 1 to 10^18 */
  def ofUnits(units: Long): Completeness = new Completeness(Decimal.valueOf(units, MostDigits))

  /** @param text "99.9%" or "0.999"
    * @return none if it isn't a number above 0 and up to 1, of at most [[MostDigits]] digits
    */
  def parse(text: String): Option[Completeness] =
    text.trim match {
      case Number(number, percent) =>
        val ratio = new Decimal(number).movePointLeft(if (percent.isEmpty) 0 else 2)
        val exact = ratio.stripTrailingZeros.scale <= MostDigits
        if (exact && ratio.signum > 0 && ratio.compareTo(Decimal.ONE) <= 0) Some(new Completeness(ratio))
        else None
      case _ => None
    }
}

/** The low watermark that travels with a record, and the share of hosts that have passed it. Records that are
  * written later have that event time or a later one, unless their host lags.
  *
  * {{{
  *   version(1) = 1   low watermark(8): microseconds, Long.MinValue for none   completeness(8): 10^-18
  * }}}
  *
  * 17 bytes, big-endian. Another layout would have another version.
  */
object WatermarkStamp {
  val Length = 17
  private val Version: Byte = 1

  /** Completeness 1 in the units of a stamp. */
  val WholeShare: Long = 1000000000000000000L

  def encode(low: Long, share: Long): Array[Byte] =
    ByteBuffer.allocate(Length).put(Version).putLong(low).putLong(share).array

  /** True if the bytes are a stamp. */
  def isValid(bytes: Array[Byte]): Boolean = bytes.length == Length && bytes(0) == Version && {
    val found = share(bytes)
    found > 0 && found <= WholeShare
  }

  /** The low watermark of a valid stamp. */
  def low(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(1)

  /** The completeness of a valid stamp. */
  def share(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong(9)
}
