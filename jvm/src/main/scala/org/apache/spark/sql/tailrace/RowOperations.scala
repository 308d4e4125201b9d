package org.apache.spark.sql.tailrace

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Spark's operations on single rows of a store, refused by name. Each minor version of Spark has others. */
private[tailrace] trait RowOperations extends StateStore {

  /** Throws the error that names the operation. */
  protected def refuse(operation: String): Nothing

  override def get(key: UnsafeRow, family: String): UnsafeRow = refuse("get")
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = refuse("valuesIterator")
  override def prefixScan(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    refuse("prefixScan")
  // Not all minor versions of Spark have these two, so they don't say that they override.
  def prefixScanWithMultiValues(key: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    refuse("prefixScanWithMultiValues")
  def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    refuse("iteratorWithMultiValues")
  override def removeColFamilyIfExists(family: String): Boolean = refuse("removeColFamilyIfExists")
  override def createColFamilyIfAbsent(
      family: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = refuse("createColFamilyIfAbsent")
  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = refuse("put")
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = refuse("putList")
  override def remove(key: UnsafeRow, family: String): Unit = refuse("remove")
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = refuse("merge")
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = refuse("mergeList")
}
