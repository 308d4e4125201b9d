package io.tailrace.sync

import java.io.File
import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.state.{KeptMemory, LiveSection, StateFileNames, StoreKind}
import io.tailrace.testkit.{RunFixture, TestRow}

final class LeftMemorySuite extends AnyFunSuite with RunFixture {

  /** A section of left rows, in a run of a version. */
  private def section(version: Long): LiveSection = {
    val made = newSection(StoreKind.HeldLeft, Seq(TestRow.of("a", version, version)))
    val file = new File(directory, StateFileNames.run(version))
    Files.copy(made.local.file.toPath, file.toPath)
    opening(file, Seq(made.section)).head
  }

  test("the keys of sections that are gone are forgotten, and their memory is given back") {
    val kept = new KeptMemory(1000)
    val memory = new LeftMemory(kept)
    val sections = (1L to 3L).map(section)
    sections.foreach(memory.learn(_, Array.fill(50)(7)))
    assert(memory.bytes == 600 && kept.bytes == 600)
    memory.settle(sections.tail)
    assert(memory.codesIn(sections.head).isEmpty && sections.tail.forall(memory.codesIn(_).nonEmpty))
    assert(memory.bytes == 400 && kept.bytes == 400)
    memory.settle(Nil)
    assert(memory.bytes == 0 && kept.bytes == 0)
  }

  test("where there is no memory, a section's keys are found anew") {
    val memory = new LeftMemory(new KeptMemory(300))
    val sections = (1L to 2L).map(section)
    sections.foreach(memory.learn(_, Array.fill(50)(7)))
    assert(memory.codesIn(sections.head).nonEmpty && memory.codesIn(sections.last).isEmpty)
    assert(memory.bytes == 200)
  }
}
