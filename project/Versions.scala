/** Every version that the build pins, in one place. */
object Versions {
  val scala = "2.13.18"
  val spark = "4.2.0"
  val scalatest = "3.2.19"
  val scalacheckTests = "3.2.19.0"
  val scalacheck = "1.18.1"
}
