import sbt._

/** The jars of a Spark that Maven Central lacks, as the wheel of pyspark has them. */
object SparkJars {

  /** Where `python/build_backend/spark_jars.py` puts them, and what it says when it is done. */
  def of(version: String): Seq[File] = {
    val folder = cache / version
    val jars = Option(folder.listFiles).toSeq.flatten.filter(_.getName.endsWith(".jar"))
    if (jars.isEmpty)
      throw new MessageOnlyException(
        s"There are no jars of Spark $version in $folder: run python python/build_backend/spark_jars.py $version"
      )
    jars.sortBy(_.getName)
  }

  private def cache: File =
    sys.env
      .get("TAILRACE_SPARK_JARS")
      .fold(file(sys.props("user.home")) / ".cache" / "tailrace" / "spark")(file)
}
