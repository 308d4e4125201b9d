package io.tailrace.rescale

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.tailrace.CheckpointOperator
import org.apache.spark.sql.types.DataType

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Durations, TailraceConf}
import io.tailrace.join.JoinCheckpoint

/** What the checkpoint says of a join.
  *
  * @param bound       its settings, and where its state is
  * @param keys        types of the key columns
  * @param bucketWidth of a section, in microseconds
  */
private[rescale] final case class StoredState(
    operator: Long,
    bound: JoinCheckpoint,
    keys: Seq[DataType],
    bucketWidth: Long
) {

  /** Whether the number of a partition decides when its rows leave. */
  def releasesInSteps: Boolean = bound.settings.get(JoinCheckpoint.ReleaseEvery).exists(_ != "batch")
}

private[rescale] object StoredState {

  /** @param version of the state */
  def read(
      spark: SparkCheckpoint,
      operator: CheckpointOperator,
      conf: Configuration,
      version: Long
  ): StoredState = {
    val directory = spark.directory(operator.id)
    val bound = JoinCheckpoint.read(directory, conf, version - 1)
    import bound.settings
    val keys = settings("on (left)")
    StoredState(
      operator.id,
      bound,
      types(keys).getOrElse(throw RescaleErrors.keysUnreadable(directory.toString, keys)),
      Math.max(
        1000L * 1000,
        Seq(JoinCheckpoint.Before, JoinCheckpoint.After)
          .flatMap(settings.get)
          .flatMap(Durations.read)
          .sum / TailraceConf.BucketsPerWindow.default
      )
    )
  }

  /** The types in a list of columns: `user_id BIGINT, item STRUCT<a: INT, b: STRING>`. Names may have spaces,
    * commas and brackets. Of several ways to read it, one with whole types counts first, whose names have no
    * brackets or colons, and then the one with most columns. A wrong one is noticed at the first key.
    */
  private[rescale] def types(columns: String): Option[Seq[DataType]] =
    read(columns)
      .maxByOption(found => (found.forall(_._1.forall(!"<>:".contains(_))), found.size))
      .map(_.map(_._2))

  /** Names and types. */
  private def read(columns: String): LazyList[Seq[(String, DataType)]] =
    positions(columns, " ").flatMap { nameEnd =>
      val rest = columns.drop(nameEnd + 1)
      (positions(rest, ", ") :+ rest.length).flatMap { typeEnd =>
        for {
          first <- LazyList.from(Try(CatalystSqlParser.parseDataType(rest.take(typeEnd))).toOption)
          name = columns.take(nameEnd)
          others <- if (typeEnd == rest.length) LazyList(Nil) else read(rest.drop(typeEnd + 2))
        } yield (name -> first) +: others
      }
    }

  private def positions(text: String, of: String): LazyList[Int] =
    LazyList.iterate(text.indexOf(of))(at => text.indexOf(of, at + 1)).takeWhile(_ >= 0)
}
