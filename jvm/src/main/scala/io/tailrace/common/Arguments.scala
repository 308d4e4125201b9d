package io.tailrace.common

/** Reads the arguments of one call. A value that isn't allowed is refused in the name of the call.
  *
  * @param call as users write it: "tailrace.join"
  */
private[tailrace] final class Arguments(val call: String) {

  def choice[T <: Choice](argument: String, value: String, allowed: Seq[T]): T =
    allowed
      .find(_.name == value)
      .getOrElse(throw invalid(argument, value, Arguments.oneOf(allowed.map(_.name))))

  /** The name of a directory in the checkpoint. */
  def name(value: String): String =
    matching("name", value, "[A-Za-z0-9_-]{1,100}", "1 to 100 letters, digits, _ and -")

  def matching(argument: String, value: String, pattern: String, allowed: String): String =
    if (value.matches(pattern)) value else throw invalid(argument, value, allowed)

  /** @return microseconds */
  def duration(argument: String, text: String, least: Long = 0): Long =
    Durations.read(text).filter(_ >= least).getOrElse {
      val bound = if (least == 0) "of zero or more" else s"of ${Durations.text(least)} or more"
      throw invalid(
        argument,
        text,
        s"a duration $bound, such as 30 minutes; months and years have no fixed length"
      )
    }

  /** A duration of one millisecond or more, in milliseconds. */
  def millis(argument: String, text: String): Long = duration(argument, text, least = 1000) / 1000

  def number(argument: String, value: Long, least: Long, most: Long = Long.MaxValue): Long =
    if (value >= least && value <= most) value
    else throw invalid(argument, value, Arguments.between(least, most))

  /** A number that Python passes as text. */
  def parsed(argument: String, text: String, most: Long): Long =
    text.toLongOption
      .filter(_ <= most)
      // Callers take an Int: a number far below zero must not come round as another one. They refuse it by their own range.
      .map(Math.max(_, -most))
      .getOrElse(throw invalid(argument, text, Arguments.between(Long.MinValue, most)))

  def invalid(argument: String, value: Any, allowed: String): TailraceAnalysisException =
    Errors.optionInvalid(call, argument, String.valueOf(value), allowed)

  /** @param needed an argument and a value of it, for instance "future_limit='1 hour'" */
  def needs(argument: String, value: Any, needed: String): TailraceAnalysisException =
    Errors.optionNeeds(call, argument, value.toString, needed)
}

private[tailrace] object Arguments {
  def oneOf(values: Seq[String]): String = values.map(v => s"'$v'").mkString(" or ")

  private def between(least: Long, most: Long): String =
    if (least == Long.MinValue) s"a whole number of at most $most"
    else if (most == Long.MaxValue) s"a whole number of $least or more"
    else s"a whole number from $least to $most"
}
