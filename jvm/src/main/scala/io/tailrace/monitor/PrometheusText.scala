package io.tailrace.monitor

/** Series in Prometheus' text format 0.0.4. */
private[monitor] object PrometheusText {
  val ContentType = "text/plain; version=0.0.4; charset=utf-8"

  def of(values: Seq[(SeriesKey, Double)]): String = {
    val text = new StringBuilder
    values.groupBy(_._1.series).toSeq.sortBy(_._1).foreach { case (series, of) =>
      val metric = MetricCatalog.metrics(series)
      text ++= s"# HELP $series ${escaped(metric.help, quotes = false)}\n"
      text ++= s"# TYPE $series ${if (metric.isCount) "counter" else "gauge"}\n"
      of.foreach { case (key, value) =>
        val labels = key.labels.map { case (name, label) => s"""$name="${escaped(label, quotes = true)}"""" }
        text ++= s"$series${labels.mkString("{", ",", "}")} ${number(value)}\n"
      }
    }
    text.result()
  }

  private def number(value: Double): String =
    if (value == value.toLong.toDouble) value.toLong.toString else value.toString

  private def escaped(text: String, quotes: Boolean): String = {
    val lines = text.replace("\\", "\\\\").replace("\n", "\\n")
    if (quotes) lines.replace("\"", "\\\"") else lines
  }
}
