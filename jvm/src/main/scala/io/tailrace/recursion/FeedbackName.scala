package io.tailrace.recursion

/** The name of a file with the rows that one task of a micro-batch has fed back.
  *
  * {{{
  *   3-4f0c...-1-of-8.fed    run 3 of the batch, with the id 4f0c..., task 1 of 8
  *   3-4f0c...-2-of-8.none   task 2 has fed nothing back
  * }}}
  *
  * A batch that runs again writes under the next number. The rows of a batch are those of the newest run
  * whose tasks have all written. Files of two runs are never mixed.
  *
  * @param run counts the runs of a batch
  * @param id  differs for two runs of one number, as when a DataFrame is in a plan twice
  */
private[recursion] final case class FeedbackName(
    run: Int,
    id: String,
    task: Int,
    tasks: Int,
    content: FeedbackContent = FeedbackContent.Rows
) {
  def attempt: FeedbackAttempt = FeedbackAttempt(run, id)
  override def toString: String = s"$run-$id-$task-of-$tasks.${content.extension}"

  /** @param length the length of the file */
  def hasRows(length: Long): Boolean = content match {
    case FeedbackContent.Rows => true
    case FeedbackContent.NoRows => false
    case FeedbackContent.Format1 => length > 0
  }
}

/** The content of a file. It is in the name, so a file that has lost its bytes isn't taken for one without
  * rows.
  */
private[recursion] sealed abstract class FeedbackContent(val extension: String)

private[recursion] object FeedbackContent {
  case object Rows extends FeedbackContent("fed")
  case object NoRows extends FeedbackContent("none")

  /** A file of an earlier release. It has no bytes if there were no rows. */
  case object Format1 extends FeedbackContent("rows")

  val all: Seq[FeedbackContent] = Seq(Rows, NoRows, Format1)
}

/** One run of a micro-batch. */
private[recursion] final case class FeedbackAttempt(run: Int, id: String) {
  override def toString: String = s"$run-$id"
}

private[recursion] object FeedbackAttempt {
  private val Text = """(\d+)-([0-9a-f]{32})""".r

  def parse(text: String): Option[FeedbackAttempt] = text match {
    case Text(run, id) => run.toIntOption.map(FeedbackAttempt(_, id))
    case _ => None
  }
}

private[recursion] object FeedbackName {
  private val Text = """(\d+)-([0-9a-f]{32})-(\d+)-of-(\d+)\.([a-z]+)""".r

  def parse(name: String): Option[FeedbackName] = name match {
    case Text(run, id, task, tasks, extension) =>
      for {
        r <- run.toIntOption
        t <- task.toIntOption
        n <- tasks.toIntOption
        content <- FeedbackContent.all.find(_.extension == extension)
      } yield FeedbackName(r, id, t, n, content)
    case _ => None
  }

  /** The run whose files are the batch's: the newest complete one, if there is any. */
  def complete(names: Seq[FeedbackName]): Option[FeedbackAttempt] =
    names
      .groupBy(_.attempt)
      .collect {
        // A run without tasks leaves one file that says so.
        case (attempt, files) if files.map(_.task).distinct.size == Math.max(1, files.head.tasks) => attempt
      }
      .minByOption(attempt => (-attempt.run, attempt.id))

  /** The number of the next run. */
  def nextRun(names: Seq[FeedbackName]): Int = names.map(_.run + 1).maxOption.getOrElse(0)
}

/** Chooses the files that a task reads. Small files share a task, so an iteration of few rows needs few tasks. */
object FeedbackSplits {

  /** The most bytes that a task reads, unless one file is larger. */
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
