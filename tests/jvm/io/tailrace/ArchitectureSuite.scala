package io.tailrace

import java.io.File
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

/** The files that `jvm/docs/architecture.md` names. */
final class ArchitectureSuite extends AnyFunSuite {
  private val page = Files.readString(new File("jvm/docs/architecture.md").toPath)

  test("each Scala file that the page names exists") {
    val named = "`([a-z]+/\\w+\\.scala)`".r.findAllMatchIn(page).map(_.group(1)).toSet
    assert(named.nonEmpty)
    assert(named.filterNot(name => new File(s"jvm/src/main/scala/io/tailrace/$name").isFile).isEmpty)
  }

  test("the walk of one row through the label join opens at most 35 files, and counts them right") {
    val steps = "(?m)^\\| (\\d+) \\| `([a-z]+/\\w+\\.scala)`".r.findAllMatchIn(page).toSeq
    assert(steps.map(_.group(1).toInt) == (1 to steps.size))
    assert(steps.map(_.group(2)).distinct.size == steps.size && steps.size <= 35)
    assert(page.contains(s"It opens ${steps.size} Scala files"))
  }
}
