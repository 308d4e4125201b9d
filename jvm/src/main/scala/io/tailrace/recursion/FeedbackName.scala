package io.tailrace.recursion

/** The name of a file with rows that a task of a micro-batch has fed back.
  *
  * {{{
  *   3-4f0c...-1-of-8.rows    run 3 of the batch, by the name of 4f0c..., task 1 of 8
  * }}}
  *
  * A batch that runs again writes under the next number. The rows of a batch are those of the newest run of which all tasks
  * have written; one that has died halfway is never mixed with another.
  *
  * @param run  counts the runs of a batch
  * @param id   tells two runs of one number apart, as when a frame is in a plan twice
  */
final case class FeedbackName(run: Int, id: String, task: Int, tasks: Int) {
  def attempt: FeedbackAttempt = FeedbackAttempt(run, id)
  override def toString: String = s"$run-$id-$task-of-$tasks${FeedbackName.Extension}"
}

/** One run of a micro-batch. */
final case class FeedbackAttempt(run: Int, id: String) {
  override def toString: String = s"$run-$id"
}

object FeedbackAttempt {
  private val Text = """(\d+)-([0-9a-f]{32})""".r

  def parse(text: String): Option[FeedbackAttempt] = text match {
    case Text(run, id) => run.toIntOption.map(FeedbackAttempt(_, id))
    case _ => None
  }
}

object FeedbackName {
  private val Extension = ".rows"
  private val Text = """(\d+)-([0-9a-f]{32})-(\d+)-of-(\d+)\.rows""".r

  def parse(name: String): Option[FeedbackName] = name match {
    case Text(run, id, task, tasks) =>
      for (r <- run.toIntOption; t <- task.toIntOption; n <- tasks.toIntOption)
        yield FeedbackName(r, id, t, n)
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
