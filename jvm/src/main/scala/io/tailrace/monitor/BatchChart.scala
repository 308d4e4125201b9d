// Spark's UI takes its pages as XML of Scala's.
// scalafix:off DisableSyntax.noXml
package io.tailrace.monitor

import java.util.Locale

import scala.xml.{Elem, NodeSeq}

/** The last micro-batches of a query as an SVG, which needs no script.
  *
  * {{{
  *   rows read        | ▂ ▆ ▃ █ ▅       a bar per micro-batch
  *   rows that wait   | ▁▂▃▃▄▄▅▅        likewise
  *   seconds          | ▂▂▂█▂           of a micro-batch
  * }}}
  */
private[monitor] object BatchChart {
  private val (width, height, gap, left) = (900, 60, 28, 150)

  private final case class Row(
      name: String,
      color: String,
      value: BatchPoint => Double,
      text: Double => String
  )

  private val rows = Seq(
    Row("rows read", "#1b6b93", _.rows.toDouble, count),
    Row("rows that wait", "#c8553d", _.waiting.toDouble, count),
    Row("seconds", "#7a6c5d", _.seconds, value => "%.1f".formatLocal(Locale.ROOT, value))
  )

  def of(points: Seq[BatchPoint]): NodeSeq =
    if (points.isEmpty) NodeSeq.Empty
    else {
      val name =
        s"The last ${points.size} micro-batches, ${points.head.batch} to ${points.last.batch}: rows read, rows that wait, seconds"
      <svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={name} width={width.toString}
           height={(rows.size * (height + gap)).toString} viewBox={
        s"0 0 $width ${rows.size * (height + gap)}"
      }
           style="max-width: 100%; font: 12px sans-serif">{
        rows.zipWithIndex.map { case (row, i) => bars(row, points, i * (height + gap) + gap / 2) }
      }</svg>
    }

  private def bars(row: Row, points: Seq[BatchPoint], top: Int): Elem = {
    val most = points.map(row.value).max
    val step = (width - left).toDouble / RecentBatches.Most
    <g>
      <text x="0" y={(top + 12).toString}>{row.name}</text>
      <text x="0" y={(top + 28).toString} fill="#666">{s"at most ${row.text(most)}"}</text>
      <line x1={left.toString} y1={(top + height).toString} x2={width.toString} y2={(top + height).toString}
            stroke="#bbb"/>
      {
      points.zipWithIndex.map { case (point, i) =>
        val tall = if (most > 0) row.value(point) / most * height else 0d
        <rect x={number(left + i * step)} y={number(top + height - tall)} width={number(step - 2)}
              height={number(tall)} fill={row.color}><title>{told(point)}</title></rect>
      }
    }
    </g>
  }

  private def told(point: BatchPoint): String =
    s"micro-batch ${point.batch}, ${point.began}: ${count(point.rows.toDouble)} rows read in " +
      "%.2f s, ".formatLocal(Locale.ROOT, point.seconds) + s"${count(point.waiting.toDouble)} wait"

  private def count(value: Double): String = MetricText.count(value)
  private def number(value: Double): String = "%.1f".formatLocal(Locale.ROOT, value)
}
