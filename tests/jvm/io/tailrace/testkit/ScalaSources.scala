package io.tailrace.testkit

import java.io.File
import java.nio.file.Files

import scala.jdk.CollectionConverters._

/** The sources of the product, for suites that check rules on them. */
object ScalaSources {
  // What differs between minor versions of Spark stands in folders beside `scala`.
  private val roots = new File("jvm/src/main").listFiles.toSeq.filter(_.getName.startsWith("scala"))

  /** The lines of each file, with its path below its root. */
  lazy val all: Seq[(String, Seq[String])] = roots.flatMap(in)

  /** Those of one minor version of Spark. */
  lazy val ofOneSpark: Seq[(String, Seq[String])] = roots.filter(_.getName != "scala").flatMap(in)

  private def in(root: File): Seq[(String, Seq[String])] = {
    val files = Files.walk(root.toPath)
    try
      files
        .iterator()
        .asScala
        .filter(_.toString.endsWith(".scala"))
        .map(p => root.toPath.relativize(p).toString -> Files.readAllLines(p).asScala.toSeq)
        .toVector
    finally files.close()
  }
}
