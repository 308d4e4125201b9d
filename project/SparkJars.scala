import java.io.File

import scala.sys.process._

import sbt._

/** The jars of a Spark that Maven Central lacks, as pyspark has them. */
object SparkJars {

  /** Installs that pyspark in the user's cache if it isn't there yet: `python/build_backend/sparks.py` says where. */
  def of(version: String, build: File): Seq[File] = {
    val python = sys.env.getOrElse("TAILRACE_PYTHON", "python3")
    val line = Seq(python, (build / "python" / "build_backend" / "sparks.py").getPath, version)
    val said = new StringBuilder
    val code = line ! ProcessLogger(out => said.append(out), err => System.err.println(err))
    if (code != 0)
      throw new MessageOnlyException(s"No Spark $version: ${line.mkString(" ")} failed, as it says above.")
    (file(said.toString) / "pyspark" / "jars" * "*.jar").get().sortBy(_.getName)
  }
}
