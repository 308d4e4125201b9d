package io.tailrace.common

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrameReader
import org.apache.spark.sql.tailrace.SparkPlans

/** A path from a user is literal, whatever characters it has. Spark's readers of files treat a path as a pattern, and
  * Hadoop treats the characters before a colon as the scheme of a URI:
  *
  * {{{
  *   spark.read.parquet("/data/export*1")     reads /data/export1, too
  *   new Path(parent, "12:00")                fails: 12 is no scheme
  * }}}
  *
  * Code that passes a user's path to one of the two calls this. `_bridge/literal_path.py` does the same for Python.
  */
object LiteralPath {
  private val Special = """[\\\[\]{}*?]""".r

  /** @param text as the user has written it: a path, or a URI of a file system that Hadoop knows
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_PATH_INVALID
    */
  def of(text: String): Path =
    try new Path(text)
    catch { case e: IllegalArgumentException => throw Errors.pathInvalid(text, e.getMessage) }

  /** The path with scheme and host, so that two names of one place are equal. */
  def qualified(text: String, hadoopConf: Configuration): Path = {
    val path = of(text)
    path.getFileSystem(hadoopConf).makeQualified(path)
  }

  /** A file or a directory in another one. */
  def in(directory: Path, name: String): Path = new Path(directory, s"./$name")

  /** Makes a reader of files take a path literally. The reader also uses the log of a Spark sink in the directory,
    * which names the files that count; with a pattern it would not.
    */
  def reader(of: DataFrameReader): DataFrameReader = of.option(SparkPlans.TakesPatterns, "false")

  /** Refuses a directory that no stream can read: Spark always treats it, and each file in it, as a pattern. */
  def checkStreamed(directory: Path): Unit =
    if (Special.findFirstIn(directory.toUri.getPath).nonEmpty)
      throw Errors.pathInvalid(
        directory.toString,
        "it has one of \\ [ ] { } * ?, by which Spark's streams take it for a pattern"
      )

  /** A name that no reader treats as a pattern. */
  def plain(name: String): String = Special.replaceAllIn(name, found => f"%%${found.matched.head.toInt}%02X")
}
