package io.tailrace.testkit

import java.io.File
import java.nio.file.{Files, Path}
import java.util.Comparator

import org.scalatest.{BeforeAndAfterEach, Suite}

/** An empty directory for each test. */
trait TempDirectory extends BeforeAndAfterEach { self: Suite =>
  private var root: Path = _

  def directory: File = root.toFile

  /** For a property, each of whose examples needs an empty directory. */
  def emptyDirectory(): Unit = {
    deleteRoot()
    Files.createDirectory(root)
  }

  private def deleteRoot(): Unit = {
    val all = Files.walk(root)
    try all.sorted(Comparator.reverseOrder[Path]()).forEach(p => Files.delete(p))
    finally all.close()
  }

  override protected def beforeEach(): Unit = {
    root = Files.createTempDirectory("tailrace-test")
    super.beforeEach()
  }

  override protected def afterEach(): Unit =
    try super.afterEach()
    finally deleteRoot()
}
