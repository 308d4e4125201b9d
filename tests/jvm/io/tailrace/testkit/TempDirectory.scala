package io.tailrace.testkit

import java.io.File
import java.nio.file.{Files, Path}
import java.util.Comparator

import org.scalatest.concurrent.Eventually._
import org.scalatest.time.{Seconds, Span}
import org.scalatest.{BeforeAndAfterEach, Suite}

/** An empty directory for each test. */
trait TempDirectory extends BeforeAndAfterEach { self: Suite =>
  private var root: Path = _

  def directory: File = root.toFile

  /** For a property, each of whose examples needs an empty directory. */
  def emptyDirectory(): Unit = {
    deleteRoot()
    Files.createDirectories(root)
    ()
  }

  private def deleteRoot(): Unit = TempDirectory.delete(root)

  override protected def beforeEach(): Unit = {
    root = Files.createTempDirectory("tailrace-test")
    super.beforeEach()
  }

  override protected def afterEach(): Unit =
    try super.afterEach()
    finally deleteRoot()
}

object TempDirectory {

  /** Deletes a directory with all that is in it. A run that a task has begun to copy before it was aborted may appear
    * meanwhile: tries again then.
    */
  def delete(root: Path): Unit = eventually(timeout(Span(30, Seconds)))(deleteOnce(root))

  private def deleteOnce(root: Path): Unit = {
    val all = Files.walk(root)
    try all.sorted(Comparator.reverseOrder[Path]()).forEach(p => { Files.deleteIfExists(p); () })
    finally all.close()
  }
}
