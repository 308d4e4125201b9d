package io.tailrace.common

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.DataFrameReader
import org.apache.spark.sql.tailrace.SparkPlans

/** A path that a user has given means itself, whatever characters it has. Spark's readers of files take a path for a
  * pattern, and Hadoop takes what stands in front of a colon for the scheme of a URI:
  *
  * {{{
  *   spark.read.parquet("/data/export*1")     reads /data/export1, too
  *   new Path(parent, "12:00")                fails: 12 is no scheme
  * }}}
  *
  * Whoever gives a user's path to one of the two asks here. `_bridge/literal_path.py` is the same for Python's calls.
  */
object LiteralPath {
  private val Special = """[\\\[\]{}*?]""".r

  /** @param text as the user has written it: a path, or a URI of a file system that Hadoop knows
    * @throws io.tailrace.common.TailraceAnalysisException TAILRACE_PATH_INVALID
    */
  def of(text: String): Path =
    try new Path(text)
    catch { case e: IllegalArgumentException => throw Errors.pathInvalid(text, e.getMessage) }

  /** A file or a directory in another one. */
  def in(directory: Path, name: String): Path = new Path(directory, s"./$name")

  /** Has a reader of files take a path as it is. It also finds the log of a sink of Spark's there, which names the files
    * that count: a pattern has none.
    */
  def reader(of: DataFrameReader): DataFrameReader = of.option(SparkPlans.TakesPatterns, "false")

  /** Refuses a directory that no stream reads: Spark takes it for a pattern in any case, and each file of it, too. */
  def checkStreamed(directory: Path): Unit =
    if (Special.findFirstIn(directory.toUri.getPath).nonEmpty)
      throw Errors.pathInvalid(
        directory.toString,
        "it has one of \\ [ ] { } * ?, by which Spark's streams take it for a pattern"
      )

  /** A name that no reader takes for a pattern. */
  def plain(name: String): String = Special.replaceAllIn(name, found => f"%%${found.matched.head.toInt}%02X")
}
