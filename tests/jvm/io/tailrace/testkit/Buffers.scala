package io.tailrace.testkit

import java.io.File

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.tailrace.StreamAccess
import org.apache.spark.unsafe.Platform

import io.tailrace.state.{RowBuffer, RowMemory, TailraceStateStore}

/** Row buffers and stores without a query. */
object Buffers {

  /** One row: key, time, value; its sequence number is its place. */
  type Entry = (Array[Byte], Long, Array[Byte])

  def of(entries: Seq[Entry]): RowBuffer = {
    val buffer = new RowBuffer(new RowMemory(StreamAccess.taskMemory()))
    entries.zipWithIndex.foreach { case ((key, time, value), i) =>
      buffer.append(key, key.length, time, i.toLong, value, Platform.BYTE_ARRAY_OFFSET.toLong, value.length)
    }
    buffer
  }

  /** A new store in `checkpoint`; all of it is gone at the end. */
  def withStore[T](spark: SparkSession, checkpoint: File)(body: TailraceStateStore => T): T = {
    val provider = StateReader.open(spark, checkpoint, partition = 0)
    try {
      val store = provider.getStore(0).asInstanceOf[TailraceStateStore]
      try body(store)
      finally store.abort()
    } finally provider.close()
  }
}
