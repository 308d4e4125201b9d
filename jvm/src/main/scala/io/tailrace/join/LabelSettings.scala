package io.tailrace.join

/** The pinned settings of the labels of `tailrace.examples`, one text per label:
  *
  * {{{
  *   examples: click    no further keys, not attributed
  *   examples: buy      further keys item BIGINT, attribution last_touch
  * }}}
  */
private[tailrace] object LabelSettings {
  private val NotAttributed = ", not attributed"
  private val Attributed = ", attribution "
  private val Further = "further keys "

  /** Further keys and attribution. */
  def parts(bound: String): (Option[String], Option[String]) = {
    val at = bound.lastIndexOf(Attributed)
    val keys = if (at >= 0) bound.take(at) else bound.stripSuffix(NotAttributed)
    val attribution = Option.when(at >= 0)(bound.drop(at + Attributed.length))
    Option.when(keys.startsWith(Further))(keys.stripPrefix(Further)) -> attribution
  }

  /** Key columns of labels that not all labels have. The state is by the others: it has events with these inside, and so
    * have the touches of impressions.
    *
    * @param settings of the checkpoint
    * @return pairs of a label and a column of the impressions
    */
  def furtherKeys(settings: Map[String, String]): Seq[(String, String)] = for {
    (label, (keys, _)) <- labels(settings)
    column <- keys.flatMap(ColumnTexts.read(_)).toSeq.flatten
  } yield label -> column.name

  /** Labels whose events impressions share. Each impression has a touch for them among the right rows of the state.
    *
    * @param settings of the checkpoint
    */
  def attributed(settings: Map[String, String]): Seq[String] =
    labels(settings).collect { case (label, (_, Some(_))) => label }

  private def labels(settings: Map[String, String]): Seq[(String, (Option[String], Option[String]))] =
    settings.toSeq.sorted.collect {
      case (setting, bound) if setting.startsWith(JoinCheckpoint.OfExamples) =>
        setting.stripPrefix(JoinCheckpoint.OfExamples) -> parts(bound)
    }
}
