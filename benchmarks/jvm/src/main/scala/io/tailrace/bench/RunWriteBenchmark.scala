package io.tailrace.bench

import java.io.File
import java.nio.file.Path
import java.util.concurrent.TimeUnit

import org.apache.hadoop.conf.Configuration
import org.openjdk.jmh.annotations._

import io.tailrace.state.{CheckpointFiles, RowBuffer, Run, Section, StoreKind, WrittenFile}

/** What does it cost to sort and write the rows of a batch as a run, and to put that run into the checkpoint? */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(2)
class RunWriteBenchmark {

  @Param(Array("left-time-sorted", "right-key-sorted"))
  var store: String = _

  @Param(Array("1000", "20000", "200000"))
  var rows: Int = _

  @Param(Array("20", "140"))
  var valueBytes: Int = _

  private var directory: Path = _
  private var kind: StoreKind = _
  private var buffer: RowBuffer = _
  private var overwritten: File = _
  private var uploaded: File = _
  private var checkpoint: CheckpointFiles = _

  @Setup
  def prepare(): Unit = {
    directory = BenchRows.newDirectory()
    kind = StoreKind.named(store).get
    buffer = BenchRows.newBuffer()
    BenchRows.append(buffer, rows, keys = rows / 2, valueBytes = valueBytes)
    overwritten = directory.resolve("overwritten.run").toFile
    uploaded = directory.resolve("uploaded.run").toFile
    checkpoint = new CheckpointFiles(
      new org.apache.hadoop.fs.Path(directory.resolve("checkpoint").toUri),
      new Configuration
    )
    BenchRows.writeTo(uploaded, kind, buffer)
    ()
  }

  @TearDown
  def close(): Unit = {
    buffer.close()
    BenchRows.deleteDirectory(directory)
  }

  @Benchmark
  def write(count: RowCount): Seq[Section] = {
    count.rows += rows
    BenchRows.writeTo(overwritten, kind, buffer)
  }

  /** Copy, checksum, sync, atomic create. */
  @Benchmark
  def upload(count: RowCount): Run = {
    count.rows += rows
    checkpoint.upload(WrittenFile.of(uploaded), "uploaded.run")
  }
}
