package io.tailrace.rewrite

import java.io.File

import scala.collection.mutable

import io.tailrace.state.{RunWriter, Section, StoreKind, WrittenFile}

/** A run of a new partition, in a local file. */
private[tailrace] final case class SplitRun(target: Int, written: WrittenFile, sections: Seq[Section])

/** Writes rows, in the order of a run's sections, into a run for each new partition that gets some of them.
  *
  * @param newFile makes an empty local file
  */
private[tailrace] final class SplitRuns(newFile: () => File) extends AutoCloseable {
  private final class Part {
    val file: File = newFile()
    val writer = new RunWriter(file)
    var kind: StoreKind = _
    var bucket = 0L
  }

  private val parts = mutable.LongMap.empty[Part]

  /** Adds a row. It must not be before the last one of its target. */
  def append(target: Int, kind: StoreKind, bucket: Long, base: AnyRef, at: Long): Unit = {
    val part = parts.getOrElseUpdate(target.toLong, new Part)
    if (part.kind != kind || part.bucket != bucket) {
      if (part.kind != null) part.writer.end()
      part.writer.begin(kind, bucket)
      part.kind = kind
      part.bucket = bucket
    }
    part.writer.append(base, at)
  }

  /** Completes the files. The caller deletes them. */
  def finish(): Seq[SplitRun] = parts.toSeq.map { case (target, part) =>
    part.writer.end()
    part.writer.finish()
    part.writer.close()
    SplitRun(target.toInt, WrittenFile.ofRun(part.file), part.writer.sections)
  }

  override def close(): Unit = parts.values.foreach(_.writer.close())
}
