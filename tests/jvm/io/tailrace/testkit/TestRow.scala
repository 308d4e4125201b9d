package io.tailrace.testkit

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.unsafe.Platform
import org.scalacheck.{Gen, Shrink}

import io.tailrace.state.{LiveSection, RowBuffer, RowLayout, RunCursor}

/** A buffered row as plain values, so that tests can compare rows with `==`. */
final case class TestRow(key: Vector[Byte], time: Long, seq: Long, value: Vector[Byte]) {

  def appendTo(buffer: RowBuffer): Int =
    buffer.append(
      key.toArray,
      key.length,
      time,
      seq,
      value.toArray,
      Platform.BYTE_ARRAY_OFFSET.toLong,
      value.length
    )

  /** The row as format 2 has it, not by way of the code that writes it; its offset is that of a byte array. */
  def layout: Array[Byte] = {
    def padded(n: Int) = (n + 7) / 8 * 8
    val bytes = ByteBuffer.allocate(24 + padded(key.size) + padded(value.size)).order(ByteOrder.LITTLE_ENDIAN)
    bytes.putLong(time).putLong(seq).putInt(key.size).putInt(value.size)
    bytes.put(key.toArray).position(24 + padded(key.size))
    bytes.put(value.toArray)
    bytes.array
  }

  override def toString: String = {
    def short(bytes: Vector[Byte]) =
      bytes.take(24).map(b => f"$b%02x").mkString + (if (bytes.size > 24) s"... (${bytes.size})" else "")
    s"(${short(key)} at $time, $seq: ${short(value)})"
  }
}

object TestRow {

  /** Where the row of [[TestRow.layout]] is in its array. */
  val At: Long = Platform.BYTE_ARRAY_OFFSET.toLong

  def bytes(text: String): Vector[Byte] = text.getBytes(UTF_8).toVector

  /** A key as [[io.tailrace.state.KeyEncoder]] writes them: none is the beginning of another. */
  def key(text: String): Vector[Byte] = bytes(text) :+ 0.toByte :+ 0.toByte

  def of(keyText: String, time: Long, seq: Long, value: String = ""): TestRow =
    TestRow(key(keyText), time, seq, bytes(value))

  def read(buffer: RowBuffer, row: Int): TestRow = {
    val key = copy(buffer.base(row), RowLayout.keyAt(buffer.at(row)), buffer.keyLength(row))
    val value = copy(buffer.base(row), buffer.valueOffset(row), buffer.valueLength(row))
    TestRow(key, buffer.time(row), buffer.seq(row), value)
  }

  private def copy(base: AnyRef, offset: Long, length: Int): Vector[Byte] = {
    val bytes = new Array[Byte](length)
    Platform.copyMemory(base, offset, bytes, Platform.BYTE_ARRAY_OFFSET.toLong, length.toLong)
    bytes.toVector
  }

  def read(cursor: RunCursor): TestRow =
    TestRow(cursor.keyBytes.toVector, cursor.time, cursor.seq, cursor.valueBytes.toVector)

  /** From where the cursor is to the end of its section. */
  def rest(cursor: RunCursor): Vector[TestRow] = {
    val rows = new ArrayBuffer[TestRow]
    while (cursor.isValid) {
      rows += read(cursor)
      cursor.next()
    }
    rows.toVector
  }

  def all(live: LiveSection): Vector[TestRow] = {
    val cursor = live.cursor()
    try {
      cursor.first()
      rest(cursor)
    } finally cursor.close()
  }

  val byteOrder: Ordering[Vector[Byte]] =
    (a, b) => java.util.Arrays.compareUnsigned(a.toArray, b.toArray)

  /** Keys of one type, which often share their first eight bytes or more. */
  private val keyTypes: Gen[Gen[Vector[Byte]]] = Gen.frequency(
    3 -> Gen.const(
      Gen.listOf(Gen.oneOf("", "a", "\u0001", "common prefix ", "\u00ff")).map(p => key(p.mkString))
    ),
    1 -> Gen.oneOf(1, 4, 8, 9, 12).map(Gen.containerOfN[Vector, Byte](_, Gen.oneOf(0, 1, 0xff).map(_.toByte)))
  )

  /** Rows of one store in the order they came in; `seq` is the row's number. */
  def rows(times: Gen[Long], emptyKeys: Boolean = false): Gen[Vector[TestRow]] = for {
    keys <- keyTypes
    found <- Gen.containerOf[Vector, TestRow](for {
      k <- if (emptyKeys) Gen.frequency(4 -> keys, 1 -> Gen.const(Vector.empty[Byte])) else keys
      t <- times
      v <- Gen.frequency(9 -> Gen.choose(0, 40), 1 -> Gen.choose(0, 9000))
    } yield TestRow(k, t, 0, Vector.tabulate(v)(i => (i * 31 + v).toByte)))
  } yield found.zipWithIndex.map { case (r, i) => r.copy(seq = i.toLong) }

  /** Rows of which some are left out are numbered no more. */
  implicit val whole: Shrink[Vector[TestRow]] = Shrink.shrinkAny
}
