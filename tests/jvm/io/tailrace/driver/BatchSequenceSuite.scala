package io.tailrace.driver

import scala.collection.mutable.ListBuffer

import org.scalatest.funsuite.AnyFunSuite

final class BatchSequenceSuite extends AnyFunSuite {
  private val begun = ListBuffer.empty[(Long, Option[String])]
  private val folded = ListBuffer.empty[String]

  private def sequence(): BatchSequence[String] = {
    begun.clear()
    folded.clear()
    new BatchSequence[String]((batch, before) => {
      begun += batch -> before
      s"batch $batch"
    })
  }

  test("a batch begins once, with the state of the batch before it") {
    val batches = sequence()
    assert(batches.last.isEmpty && batches.of(7).isEmpty)
    assert(Seq(7L, 7L, 8L, 8L).map(batches.at) == Seq("batch 7", "batch 7", "batch 8", "batch 8"))
    assert(begun.toSeq == Seq(7L -> None, 8L -> Some("batch 7")))
    assert(batches.of(7).isEmpty && batches.of(8).contains("batch 8") && batches.last.contains("batch 8"))
  }

  test("a batch is folded once, however often Spark asks for its end, and also if it was never begun") {
    val batches = sequence()
    batches.at(7): Unit
    Seq(7L, 7L, 8L, 8L).foreach(batches.end(_)(folded += _))
    assert(folded.toSeq == Seq("batch 7", "batch 8"))
    assert(begun.map(_._1).toSeq == Seq(7L, 8L))
  }

  test("a fold that fails is done again when it is asked for again, and then once") {
    val batches = sequence()
    intercept[IllegalStateException](batches.end(7)(_ => throw new IllegalStateException("no disk")))
    Seq(7L, 7L).foreach(batches.end(_)(folded += _))
    assert(folded.toSeq == Seq("batch 7"))
    assert(begun.map(_._1).toSeq == Seq(7L))
  }

  test("a batch that can't begin leaves the one before it") {
    val batches = new BatchSequence[String]((batch, _) =>
      if (batch == 8) throw new IllegalStateException("no disk") else s"batch $batch"
    )
    batches.at(7): Unit
    intercept[IllegalStateException](batches.at(8))
    assert(batches.of(8).isEmpty && batches.last.contains("batch 7"))
  }
}
