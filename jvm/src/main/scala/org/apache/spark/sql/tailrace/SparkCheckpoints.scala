package org.apache.spark.sql.tailrace

import java.io.InputStream

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkConf
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, CommitMetadataBase}

/** Spark's internals that read a checkpoint without a session. */
object SparkCheckpoints {

  def readCommit(in: InputStream): CommitMetadataBase = CommitLog.readCommitMetadata(in)

  /** The file systems' settings as a session with these properties has them; checkpoints know Spark's own ones, too. */
  def hadoopConf(properties: Map[String, String]): Configuration = {
    val conf = SparkHadoopUtil.newConfiguration(new SparkConf(false).setAll(properties))
    properties.foreach { case (name, value) => conf.set(name, value) }
    conf
  }
}
