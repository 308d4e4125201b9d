package io.tailrace.rewrite

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}

import io.tailrace.checkpoint.DurableFiles

/** Which of several commands may turn a checkpoint over: the one that has begun last. Each makes the next
  * number its own, by a file that nobody can make twice. Nobody has to find out whether the one before has died.
  *
  * {{{
  *   12:00  tailrace-rescale/1   a rescaling, which is killed at 12:01
  *   12:05  tailrace-rescale/2   another one
  *   12:06  tailrace-rescale/3   an erasure, of another process: the second is refused at its next look
  * }}}
  *
  * The newest file stays, so that no number comes again.
  *
  * @param what the command does, for people who look into the file: "a rescaling to 4 state partitions"
  */
private[tailrace] final class Claim(checkpoint: Path, conf: Configuration, what: String) {
  private val directory = new Path(checkpoint, "tailrace-rescale")
  private val files = DurableFiles.in(directory, conf)
  private val own = take(all)
  files.deleteAll(all.filter(_ < own).map(path))

  private def all: Seq[Long] = files.names(directory).flatMap(_.toLongOption)

  private def path(number: Long): Path = new Path(directory, number.toString)

  @annotation.tailrec
  private def take(before: Seq[Long]): Long = {
    val next = before.maxOption.getOrElse(0L) + 1
    val isOwn =
      try {
        files.create(path(next))(_.write(s"$what\n".getBytes(UTF_8)))
        true
      } catch { case _: FileAlreadyExistsException => false }
    if (isOwn) next else take(next +: all)
  }

  def isNewest: Boolean = all.maxOption.contains(own)
}

private[tailrace] object Claim {
  private val inThisJvm = ConcurrentHashMap.newKeySet[Path]()

  /** Runs `body`, unless another command of this JVM changes the checkpoint. @return none: it does */
  def alone[T](checkpoint: Path, conf: Configuration)(body: => T): Option[T] = {
    val path = checkpoint.getFileSystem(conf).makeQualified(checkpoint)
    Option.when(inThisJvm.add(path)) {
      try body
      finally inThisJvm.remove(path): Unit
    }
  }
}
