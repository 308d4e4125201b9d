package io.tailrace.recursion

/** The name of a file that a task of a micro-batch has fed rows back in.
  *
  * {{{
  *   3-4f0c...-1-of-8.fed    run 3 of the batch, by the name of 4f0c..., task 1 of 8
  *   3-4f0c...-2-of-8.none   task 2 has fed nothing back
  * }}}
  *
  * A batch that runs again writes under the next number. The rows of a batch are those of the newest run of which all tasks
  * have written; one that has died halfway is never mixed with another.
  *
  * @param run  counts the runs of a batch
  * @param id   tells two runs of one number apart, as when a frame is in a plan twice
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

  /** @param length of the file */
  def hasRows(length: Long): Boolean = content match {
    case FeedbackContent.Rows => true
    case FeedbackContent.NoRows => false
    case FeedbackContent.Format1 => length > 0
  }
}

/** The content of a file. It is part of the name: a file that has lost its bytes must not pass for one that never had any. */
private[recursion] sealed abstract class FeedbackContent(val extension: String)

private[recursion] object FeedbackContent {
  case object Rows extends FeedbackContent("fed")
  case object NoRows extends FeedbackContent("none")

  /** A file of an earlier release: rows, or nothing if it has no bytes. */
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

  /** The run whose files are the batch's: the newest complete one.
    *
    * @return none if there is none
    */
  def complete(names: Seq[FeedbackName]): Option[FeedbackAttempt] =
    names
      .groupBy(_.attempt)
      .collect {
        // A run without tasks leaves one file that says so.
        case (attempt, files) if files.map(_.task).distinct.size == Math.max(1, files.head.tasks) => attempt
      }
      .toSeq
      .sortBy(a => (-a.run, a.id))
      .headOption

  /** The number of the next run. */
  def nextRun(names: Seq[FeedbackName]): Int = names.map(_.run + 1).maxOption.getOrElse(0)
}
