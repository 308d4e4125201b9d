/** A minor version of Spark that there is a jar for.
  *
  * @param version the one to compile and test against
  * @param folders with the sources that not all minor versions share, below `jvm/src/main`
  */
final case class SparkMinor(minor: String, version: String, folders: Seq[String]) {

  /** Whether its jars are those of the wheel of pyspark: Maven Central lacks the version. */
  def isInWheelOnly: Boolean = Versions.wheelOnly(version)

  /** As the project's name has it. */
  def digits: String = minor.filter(_.isDigit)
}

/** Every version that the build pins, in one place. `python/build_backend/sparks.py` reads those of Spark. */
object Versions {
  val scala = "2.13.18"

  val spark41 = SparkMinor("4.1", "4.1.4", Seq("scala-spark-4.1", "scala-spark-before-4.3"))
  val spark42 = SparkMinor("4.2", "4.2.0", Seq("scala-spark-since-4.2", "scala-spark-before-4.3"))
  val spark43 = SparkMinor("4.3", "4.3.0", Seq("scala-spark-since-4.2", "scala-spark-4.3"))

  /** That of all that isn't named otherwise. */
  val spark = spark42.version

  /** Maven Central lacks these, so their jars are those of pyspark. */
  val wheelOnly = Set("4.1.4", "4.3.0")
  val scalatest = "3.2.19"
  val scalacheckTests = "3.2.19.0"
  val scalacheck = "1.18.1"
}
