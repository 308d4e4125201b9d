package org.apache.spark.sql.tailrace

import scala.xml.Node

import org.apache.spark.metrics.source.Source
import org.apache.spark.ui.{SparkUITab, UIUtils, WebUI, WebUIPage}
import org.apache.spark.{SparkContext, SparkEnv}

import com.codahale.metrics.MetricRegistry
import jakarta.servlet.http.{HttpServlet, HttpServletRequest, HttpServletResponse}

/** Where Spark shows metrics: its own metrics system, with all sinks that are configured there, and its UI. */
object SparkMonitoring {

  /** The application of this JVM; none if it has ended. */
  def application: Option[SparkContext] = SparkContext.getActive.filterNot(_.isStopped)

  /** Adds metrics to the driver's. Those that the registry gets later are found, too. */
  def register(name: String, registry: MetricRegistry): Unit =
    SparkEnv.get.metricsSystem.registerSource(new Source {
      override val sourceName: String = name
      override val metricRegistry: MetricRegistry = registry
    })

  /** Adds a text to the driver's UI, subject to its filters.
    *
    * @param path of the URL: "/metrics/<one>/<two>"
    * @return false: the application has no UI
    */
  def attach(context: SparkContext, path: String, contentType: String)(text: () => String): Boolean = {
    context.ui.foreach { ui =>
      // Scala doesn't see it: Spark's jar names Jetty's classes otherwise than the signatures in it do.
      classOf[WebUI]
        .getMethod("attachHandler", classOf[String], classOf[HttpServlet], classOf[String])
        .invoke(
          ui,
          path.take(path.lastIndexOf('/')),
          new TextServlet(contentType, text),
          path.drop(path.lastIndexOf('/'))
        )
    }
    context.ui.isDefined
  }

  /** Adds a tab to the driver's UI, if the application has one.
    *
    * @param path of the URL: "one" for `/one/`
    */
  def attachTab(context: SparkContext, path: String, title: String)(content: () => Seq[Node]): Unit =
    context.ui.foreach { ui =>
      val tab = new SparkUITab(ui, path) { override val name: String = title }
      tab.attachPage(new WebUIPage("") {
        override def render(request: HttpServletRequest): Seq[Node] =
          UIUtils.headerSparkPage(request, title, content(), tab)
      })
      ui.attachTab(tab)
    }

  private final class TextServlet(contentType: String, text: () => String) extends HttpServlet {
    override def doGet(request: HttpServletRequest, response: HttpServletResponse): Unit = {
      response.setContentType(contentType)
      response.setHeader("Cache-Control", "no-cache, no-store, must-revalidate")
      response.setHeader("X-Content-Type-Options", "nosniff")
      response.getWriter.write(text())
    }
  }
}
