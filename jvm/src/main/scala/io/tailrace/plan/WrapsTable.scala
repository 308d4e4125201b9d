package io.tailrace.plan

import org.apache.spark.sql.connector.catalog.Table

/** A table of ours that reads what another one has: rules that know sources look at that one. */
trait WrapsTable extends Table {
  def source: Table
}
