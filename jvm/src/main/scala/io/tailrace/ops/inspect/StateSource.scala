package io.tailrace.ops.inspect

import java.util.{Map => JavaMap}

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.tailrace.SparkSession
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.util.SerializableConfiguration

import io.tailrace.checkpoint.SparkCheckpoint

/** `spark.read.format("tailrace-state").load(CHECKPOINT)`: what the operators of a query keep, decoded. The query
  * may run meanwhile.
  *
  * {{{
  *   version 9 of operator 0    --> a task a partition that may have rows of the keys that are asked for
  *     manifest of partition 1  --> the sections that may have rows of the side and the times
  *                              --> (0, 1, "left", 12:03:49, {user 7}, {7, 12:03:49, ...}, null)
  * }}}
  *
  * The version is chosen by `load`. A running query deletes old ones, so a frame that is used later may name a
  * file that is gone.
  */
final class StateSource extends DataSourceRegister with TableProvider {
  override def shortName(): String = "tailrace-state"

  // Spark asks for the columns first. The newest version may be another one by the time it asks for the table.
  private var opened = Option.empty[(CaseInsensitiveStringMap, StateTable)]

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = {
    val table = open(StateOptions.read(options))
    opened = Some(options -> table)
    table.rows
  }

  override def getTable(schema: StructType, by: Array[Transform], options: JavaMap[String, String]): Table = {
    val asked = new CaseInsensitiveStringMap(options)
    opened.filter(_._1 == asked).fold(open(StateOptions.read(asked)))(_._2)
  }

  private def open(options: StateOptions): StateTable = {
    val session = SparkSession.active
    val conf = session.sessionState.newHadoopConf()
    SparkCheckpoint.readable(options.path) {
      options.of match {
        case StateContent.Rows => joinTable(options, conf, session.sparkContext.defaultParallelism)
        case other => KeptTable.of(other, options, conf)
      }
    }
  }

  private def joinTable(options: StateOptions, conf: Configuration, slots: Int): StateTable = {
    val inspection = new CheckpointInspection(options.path, conf)
    val join = chosen(inspection.joins(options.version), options)
    val before = options.from.map { version =>
      val earlier = inspection.joins(Some(version)).find(_.operator == join.operator).get
      val version_ = join.version
      if (version > version_)
        throw StateOptions.invalid("from_version", version.toString, s"at most $version_, the newest version")
      if (earlier.partitions.map(_.directory) != join.partitions.map(_.directory))
        throw StateOptions.invalid(
          "from_version",
          version.toString,
          s"a version with the ${join.partitions.size} partitions of version $version_: their rows have new numbers since"
        )
      earlier
    }
    new JoinTable(
      join,
      before,
      StateColumns.of(join.bound, join.partitions.head.directory, before.nonEmpty),
      slots,
      new SerializableConfiguration(conf)
    )
  }

  private def chosen(joins: Seq[JoinVersion], options: StateOptions): JoinVersion = {
    val found = options.operator.fold(joins)(text =>
      joins.filter(join => join.operator.toString == text || join.name == text)
    )
    if (found.size == 1) found.head
    else {
      val names = joins.map(join => s"${join.operator} (${join.name})").mkString(", ")
      throw StateOptions.invalid("operator", options.operator.getOrElse("missing"), s"one of $names")
    }
  }
}
