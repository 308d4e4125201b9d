package io.tailrace.testkit

import java.io.{InputStream, OutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager

/** A checkpoint on the local file system, as Spark keeps it there by default, whose every step is told to a watcher: it
  * may throw, or end the JVM. Set it as `spark.sql.streaming.checkpointFileManagerClass`; Spark's own logs go through it
  * too.
  */
final class WatchedFiles(path: Path, conf: Configuration)
    extends FileContextBasedCheckpointFileManager(path, LocalFsInProcess.in(conf)) {
  import FileStep._
  import WatchedFiles._

  override def createTempFile(temporary: Path): FSDataOutputStream = {
    val file = finalPath(temporary)
    reach(Create, file)
    new FSDataOutputStream(new Output(super.createTempFile(temporary), file), null)
  }

  override def renameTempFile(from: Path, to: Path, overwriteIfPossible: Boolean): Unit = {
    reach(Rename, to)
    super.renameTempFile(from, to, overwriteIfPossible)
    reach(Renamed, to)
  }

  override def open(file: Path): FSDataInputStream = {
    reach(Open, file)
    new FSDataInputStream(new Input(super.open(file), file))
  }

  override def exists(file: Path): Boolean = {
    reach(Look, file)
    super.exists(file)
  }

  override def list(directory: Path, filter: PathFilter): Array[FileStatus] = {
    reach(List, directory)
    super.list(directory, filter)
  }

  override def delete(file: Path): Unit = {
    reach(Delete, finalPath(file))
    super.delete(file)
  }
}

object WatchedFiles {
  type Watcher = (FileStep, Path) => Unit

  val Key = "spark.sql.streaming.checkpointFileManagerClass"
  private val Nobody: Watcher = (_, _) => ()

  @volatile private var watcher: Watcher = Nobody

  /** Of all files of this kind in the JVM, while `body` runs. */
  def watchedBy[T](by: Watcher)(body: => T): T = {
    watcher = by
    try body
    finally watcher = Nobody
  }

  def configure(conf: Configuration): Configuration = {
    conf.set(Key, classOf[WatchedFiles].getName)
    conf
  }

  private def reach(step: FileStep, file: Path): Unit = watcher(step, file)

  private val TemporaryName = """\.(.+)\.[0-9a-f-]{36}(?:\.TID\d+)?\.tmp""".r

  /** The file that a temporary one is to become. */
  private def finalPath(path: Path): Path = path.getName match {
    case TemporaryName(name) => new Path(path.getParent, name)
    case _ => path
  }

  private final class Output(out: FSDataOutputStream, file: Path) extends OutputStream with Syncable {
    override def write(b: Int): Unit = write(Array(b.toByte), 0, 1)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      out.write(bytes, offset, length / 2)
      reach(FileStep.Write, file)
      out.write(bytes, offset + length / 2, length - length / 2)
    }
    override def hflush(): Unit = out.hflush()
    override def hsync(): Unit = {
      reach(FileStep.Sync, file)
      out.hsync()
    }
    override def close(): Unit =
      try reach(FileStep.Close, file)
      finally out.close()
  }

  private final class Input(in: FSDataInputStream, file: Path)
      extends InputStream
      with Seekable
      with PositionedReadable {
    override def read(): Int = {
      reach(FileStep.Read, file)
      in.read()
    }
    override def read(bytes: Array[Byte], offset: Int, length: Int): Int = {
      reach(FileStep.Read, file)
      in.read(bytes, offset, length)
    }
    override def available(): Int = in.available()
    override def close(): Unit = in.close()
    override def seek(position: Long): Unit = in.seek(position)
    override def getPos: Long = in.getPos
    override def seekToNewSource(position: Long): Boolean = in.seekToNewSource(position)
    override def read(position: Long, bytes: Array[Byte], offset: Int, length: Int): Int =
      in.read(position, bytes, offset, length)
    override def readFully(position: Long, bytes: Array[Byte], offset: Int, length: Int): Unit =
      in.readFully(position, bytes, offset, length)
    override def readFully(position: Long, bytes: Array[Byte]): Unit = in.readFully(position, bytes)
  }
}
