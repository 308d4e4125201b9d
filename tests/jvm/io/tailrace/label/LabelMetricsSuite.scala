package io.tailrace.label

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

final class LabelMetricsSuite extends AnyFunSuite {

  test("the table of the documentation has each metric of the operator, and no other") {
    val lines = Files.readAllLines(Path.of("docs/reference/metrics.md")).asScala.toSeq
    val table = lines.dropWhile(_ != "| metric | |").drop(2).takeWhile(_.startsWith("|"))
    val documented = table.flatMap(line => "`(\\w+)`".r.findAllMatchIn(line.split('|')(1)).map(_.group(1)))
    assert(documented.sorted == LabelMetrics.names.sorted)
  }
}
