package io.tailrace.common

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

final class MarkSuite extends AnyFunSuite {
  private val reasons = Mark.values.map(_.reason)

  test("Python's type of reasons has the reasons of Mark, in their order") {
    val text = Files.readString(Path.of("python/tailrace/options.py"))
    val listed = "(?s)Reason: TypeAlias = Literal\\[(.*?)\\]".r.findFirstMatchIn(text).get.group(1)
    assert("\"([a-z_]+)\"".r.findAllMatchIn(listed).map(_.group(1)).toSeq == reasons)
  }

  test("the table of the documentation has the reasons of Mark, in their order") {
    val page = Files.readString(Path.of("docs/reference/marks.md"))
    val table = page.split("\\| `_mark` \\| function \\| row \\|").last.split("\n\n").head
    val first = table.linesIterator.drop(2).map(_.split('|')(1))
    assert(first.flatMap("`([a-z_]+)`".r.findAllMatchIn(_).map(_.group(1))).toSeq == reasons)
  }
}
