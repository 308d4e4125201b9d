package io.tailrace.bench

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path => LocalPath}
import java.util.SplittableRandom

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, XXH64}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.tailrace.SparkCheckpoints
import org.apache.spark.sql.types.LongType
import org.apache.spark.unsafe.Platform

import io.tailrace.api.Tailrace
import io.tailrace.join.JoinCheckpoint
import io.tailrace.state._

/** How long a rescaling takes: `bench/runMain io.tailrace.bench.Rescaling 10000 FILE 4 16` for 10,000 MB of a lazy label join
  * with keys of 8 bytes and values of 200 that can't be compressed. The checkpoint is on the disk of FILE. All rows must be there
  * afterwards, byte by byte, each in the partition of its key.
  */
object Rescaling {
  private val Runs = 8
  private val ValueBytes = 200

  def main(arguments: Array[String]): Unit = {
    val bytes = arguments(0).toLong * 1000000
    val file = new File(arguments(1)).getAbsoluteFile
    val (before, after) = (arguments(2).toInt, arguments(3).toInt)
    val directory = Files.createTempDirectory(file.getParentFile.toPath, "rescaling")
    val spark = SparkSession
      .builder()
      .master("local[2]")
      .config("spark.ui.enabled", "false")
      .config("spark.local.dir", directory.toString)
      .config("spark.sql.streaming.checkpointFileManagerClass", "io.tailrace.checkpoint.TailraceFileManager")
      .getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    val checkpoint = directory.resolve("checkpoint")
    write(checkpoint, bytes, before)
    val rows = digest(checkpoint, before, StateLayout.FirstStore)
    assert(new ProcessBuilder("sync").start().waitFor() == 0)
    val started = System.nanoTime
    val report = Tailrace.rescale(spark, checkpoint.toString, after)
    val seconds = (System.nanoTime - started) / 1e9
    assert(digest(checkpoint, after, storeOf(checkpoint)) == rows, "other rows than before")
    spark.stop()
    val cores = 2
    val line = f"$before%6d to $after%4d: ${report.rows}%,d rows, ${report.bytes / 1e6}%,.0f MB, " +
      f"$seconds%.1f s, ${report.bytes / 1e6 / seconds / cores}%.0f MB/s a core"
    println(line)
    val lines = if (file.exists) Files.readString(file.toPath) else s"cores $cores, a local disk\n"
    Files.writeString(file.toPath, s"$lines$line\n")
    BenchRows.deleteDirectory(directory)
  }

  private def storeOf(checkpoint: LocalPath): String =
    checkpoint.resolve("state/0/0").toFile.list.find(_.startsWith("of-")).get

  private def write(checkpoint: LocalPath, bytes: Long, partitions: Int): Unit = {
    def put(name: String, text: String): Unit = {
      Files.createDirectories(checkpoint.resolve(name).getParent)
      Files.write(checkpoint.resolve(name), text.getBytes(UTF_8)): Unit
    }
    put(
      "offsets/0",
      s"""v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{"spark.sql.shuffle.partitions":"$partitions"}}\n0"""
    )
    put("commits/0", "v1\n{\"nextBatchWatermarkMs\":0}")
    val operator = """"operatorInfo":{"operatorId":0,"operatorName":"tailraceLabelJoin"}"""
    val store = s"""{"storeName":"default","numColsPrefixKey":0,"numPartitions":$partitions}"""
    put("state/0/_metadata/metadata", s"""v1\n{$operator,"stateStoreInfo":[$store]}""")
    val settings =
      Map("on (left)" -> "id BIGINT", "before" -> "0 microseconds", "after" -> "1800000000 microseconds")
    JoinCheckpoint.write(
      new Path(checkpoint.resolve("state/0").toUri),
      new Configuration,
      JoinCheckpoint(1, settings)
    )
    (0 until partitions).foreach(writePartition(checkpoint, _, partitions, bytes / partitions))
  }

  private def writePartition(checkpoint: LocalPath, partition: Int, partitions: Int, bytes: Long): Unit = {
    val files =
      new CheckpointFiles(new Path(checkpoint.resolve(s"state/0/$partition").toUri), new Configuration)
    val row = new Array[Byte](RowLayout.length(8, ValueBytes).toInt)
    val rows = bytes / Runs / 2 / row.length
    val random = new SplittableRandom(partition.toLong)
    val mine = new Placement(partitions)
    val runs = (0 until Runs).map { run =>
      val local = checkpoint.resolve(s"$run.local").toFile
      val writer = new RunWriter(local)
      Seq(StoreKind.LeftTimeSorted, StoreKind.RightKeySorted).foreach { kind =>
        writer.begin(kind, run.toLong)
        var key = run.toLong << 40
        (0L until rows).foreach { i =>
          while (mine.of(key) != partition) key += 1
          fill(row, key, i, run, random)
          writer.append(row, Platform.BYTE_ARRAY_OFFSET.toLong)
          key += 1
        }
        writer.end()
      }
      writer.finish()
      writer.close()
      val uploaded =
        files.upload(WrittenFile.of(local), StateFileNames.run(1)).copy(sections = writer.sections)
      Files.delete(local.toPath)
      uploaded
    }
    files.commit(files.newManifest(1, None), Manifest(1, Long.MinValue, runs), Map.empty): Unit
  }

  private def fill(row: Array[Byte], key: Long, i: Long, run: Int, random: SplittableRandom): Unit = {
    val base = Platform.BYTE_ARRAY_OFFSET.toLong
    RowLayout.writeHeader(row, base, BenchRows.Start + i, (1L << 32) + (run.toLong << 28) + i, 8, ValueBytes)
    Platform.putLong(row, RowLayout.keyAt(base), java.lang.Long.reverseBytes(key ^ Long.MinValue))
    val value = RowLayout.valueAt(row, base)
    (0 until ValueBytes by 8).foreach(at => Platform.putLong(row, value + at, random.nextLong()))
  }

  /** Where Spark sends a key. */
  private final class Placement(partitions: Int) {
    private val column = Seq(BoundReference(0, LongType, nullable = false))
    private val number =
      UnsafeProjection.create(Seq(HashPartitioning(column, partitions).partitionIdExpression))
    private val row = InternalRow(0L)

    def of(key: Long): Int = {
      row.setLong(0, key)
      number(row).getInt(0)
    }
  }

  /** Number and sum of the hashes of all rows. Each must be in the partition of its key. */
  private def digest(checkpoint: LocalPath, partitions: Int, store: String): (Long, Long) = {
    val place = new Placement(partitions)
    var count, sum = 0L
    (0 until partitions).foreach { partition =>
      val path = SparkCheckpoints.partition(new Path(checkpoint.resolve("state").toUri), 0, partition, store)
      val local = Files.createTempDirectory(checkpoint, "digest").toFile
      val files = new CheckpointFiles(path, new Configuration)
      val opened = new OutsideState(local, files, 1, None, RowShapes.AsWritten)
      opened.state.sections.foreach(_.foreachRow { cursor =>
        val (base, at) = (cursor.base, cursor.at)
        val key = java.lang.Long.reverseBytes(Platform.getLong(base, RowLayout.keyAt(at))) ^ Long.MinValue
        assert(place.of(key) == partition, s"key $key in partition $partition")
        count += 1
        sum += XXH64.hashUnsafeBytes(base, at, RowLayout.length(base, at).toInt, 0L)
      })
      opened.close()
    }
    (count, sum)
  }
}
