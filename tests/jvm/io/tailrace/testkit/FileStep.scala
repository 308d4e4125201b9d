package io.tailrace.testkit

/** A thing that is done to a file of a checkpoint, told before it is done; `Write` when half of the bytes are out, and
  * `Renamed` when the file is there already and only its writer doesn't know.
  */
sealed abstract class FileStep

object FileStep {
  case object Create extends FileStep
  case object Write extends FileStep
  case object Sync extends FileStep
  case object Close extends FileStep
  case object Rename extends FileStep
  case object Renamed extends FileStep
  case object Open extends FileStep
  case object Read extends FileStep
  case object Look extends FileStep
  case object List extends FileStep
  case object Delete extends FileStep

  val all: Seq[FileStep] =
    Seq(Create, Write, Sync, Close, Rename, Renamed, Open, Read, Look, List, Delete)

  def named(name: String): FileStep =
    all.find(_.toString == name).getOrElse(throw new IllegalArgumentException(s"no step $name"))
}
