package io.tailrace.recursion

/** Which files a task reads: small ones together, so that a hop of few rows isn't a task for each task before it. */
object FeedbackSplits {

  /** Bytes that are worth a task. */
  val Bytes: Long = 4L << 20

  /** @param files names and lengths
    * @return each file once, in their order
    */
  def group(files: Seq[(String, Long)]): Seq[Seq[String]] =
    files
      .foldLeft(Vector.empty[(Vector[String], Long)]) { case (groups, (name, length)) =>
        groups.lastOption match {
          case Some((names, bytes)) if bytes + length <= Bytes =>
            groups.init :+ ((names :+ name, bytes + length))
          case _ => groups :+ ((Vector(name), length))
        }
      }
      .map(_._1)
}
