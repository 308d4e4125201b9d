package io.tailrace.watermark

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse, HttpTimeoutException}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration
import java.util.concurrent.{
  CompletableFuture,
  ConcurrentHashMap,
  ExecutionException,
  TimeUnit,
  TimeoutException
}

import scala.annotation.tailrec

import org.apache.spark.internal.Logging

/** Sends the requests of one run of a query to the watermark servers that it names. They are replicas over
  * one store: each sees what the others have accepted. So any of them may receive any request, and two of them may
  * receive the same report.
  *
  * {{{
  *   request ──> a    no connection, no whole answer within 2 s, 5xx      the next one gets it
  *           ──> b    200                                                 b is tried first from now on
  *                    4xx                                                 the same; each server would refuse
  * }}}
  *
  * Every answer has the id of its server's store. If two servers have different stores, the query ends: each
  * would know a part of its progress. Servers that are there when the query starts are compared then, the
  * others when they first answer.
  *
  * It is thread-safe: the sources, the sink and the heartbeats of a run share it, so that one of them finds out
  * for all which server answers.
  */
private[watermark] final class ServerFailover(server: ServerSettings) extends Logging {
  import ServerFailover._

  private val urls = server.urls.map(_.stripSuffix("/"))
  private val application = s"/v1/apps/${WireName.inUrl(server.app)}"

  @volatile private var answeredLast = 0

  // The last answer of each server: it may come back with another store.
  private val stores = new ConcurrentHashMap[String, String]
  private lazy val compared: Unit = askForStores()

  /** Asks one server after the other, beginning with the one that answered last.
    *
    * @param path   below the application's, with parameters
    * @param finish gives the request its method, body and headers
    * @return an answer with a status below 500
    * @throws java.io.IOException if none answers; with several servers it says why each hasn't
    * @throws io.tailrace.common.TailraceStateException TAILRACE_WATERMARK_STORES_DIFFER
    */
  def send(path: String)(finish: HttpRequest.Builder => HttpRequest.Builder): HttpResponse[String] = {
    if (urls.size > 1) compared
    val first = answeredLast

    @tailrec
    def next(left: List[Int], failed: List[Failed]): HttpResponse[String] = left match {
      case Nil => throw allFailed(failed.reverse)
      case i :: others =>
        ask(urls(i), path, finish) match {
          case Right(answer) =>
            if (failed.nonEmpty) goOnAt(i, failed.reverse)
            answer
          case Left(failure) => next(others, Failed(urls(i), failure) :: failed)
        }
    }
    next(urls.indices.map(i => (first + i) % urls.size).toList, Nil)
  }

  private def goOnAt(answers: Int, failed: Seq[Failed]): Unit = {
    answeredLast = answers
    logWarning(
      s"TAILRACE_WATERMARK_SERVER_REPLACED: ${urls(answers)} is asked from now on: ${told(failed)}"
    )
  }

  private def ask(
      url: String,
      path: String,
      finish: HttpRequest.Builder => HttpRequest.Builder
  ): Either[IOException, HttpResponse[String]] =
    try {
      val request = HttpRequest.newBuilder(URI.create(url + application + path)).timeout(Timeout)
      server.token.foreach(token => request.header("Authorization", s"Bearer $token"))
      val answer = whole(begun(finish(request)))
      note(url, answer)
      compare()
      if (answer.statusCode < 500) Right(answer) else Left(new IOException(statusOf(answer)))
    } catch {
      case e: IOException => Left(e)
    }

  private def allFailed(failed: Seq[Failed]): IOException = failed match {
    case Seq(alone) => alone.failure
    case several =>
      val all = new IOException(told(several))
      several.foreach(one => all.addSuppressed(one.failure))
      all
  }

  /** Asks all servers at once which stores they have, so that a wrong address is found when the query starts,
    * not in the night in which another server is lost.
    */
  private def askForStores(): Unit = {
    val asked = urls.map { url =>
      url -> begun(HttpRequest.newBuilder(URI.create(s"$url/healthz")).timeout(Timeout).GET())
    }
    asked.foreach { case (url, answer) =>
      try note(url, whole(answer))
      catch { case e: IOException => logInfo(s"The watermark server $url doesn't answer: $e") }
    }
    compare()
  }

  /** A server of an earlier release doesn't say which store it has. */
  private def note(url: String, answer: HttpResponse[String]): Unit =
    answer.headers.firstValue(StoreHeader).ifPresent(store => stores.put(url, store): Unit)

  private def compare(): Unit = {
    val known = urls.flatMap(url => Option(stores.get(url)).map(url -> _))
    known.find(_._2 != known.head._2).foreach { case (url, store) =>
      throw WatermarkErrors.storesDiffer(known.head._1, known.head._2, url, store)
    }
  }
}

private[watermark] object ServerFailover {

  /** The longest wait for an answer of one server. */
  val Timeout: Duration = Duration.ofSeconds(2)

  private val StoreHeader = "Tailrace-Store"
  private val MostOfAnAnswer = 300
  private lazy val http =
    HttpClient.newBuilder().connectTimeout(Timeout).version(HttpClient.Version.HTTP_1_1).build()

  private final case class Failed(url: String, failure: IOException)

  private def told(failed: Seq[Failed]): String =
    failed.map(one => s"${one.url} has not answered (${one.failure})").mkString("; ")

  def statusOf(answer: HttpResponse[String]): String =
    s"status ${answer.statusCode}: ${answer.body.take(MostOfAnAnswer)}"

  private def begun(request: HttpRequest.Builder): CompletableFuture[HttpResponse[String]] =
    http.sendAsync(request.build(), HttpResponse.BodyHandlers.ofString(UTF_8))

  /** The timeout here covers the whole answer. The HTTP client's own are of the same length, and cover the
    * connection and the headers: any may be first, so all give the same error.
    */
  private def whole(answer: CompletableFuture[HttpResponse[String]]): HttpResponse[String] =
    try answer.get(Timeout.toMillis, TimeUnit.MILLISECONDS)
    catch {
      case e: TimeoutException => throw tooLate(e)
      case e: ExecutionException =>
        throw (e.getCause match {
          case e: HttpTimeoutException => tooLate(e)
          case failed: IOException => failed
          case other => new IOException(other)
        })
    } finally answer.cancel(true): Unit

  private def tooLate(cause: Exception): IOException =
    new IOException(s"no whole answer within ${Timeout.toMillis} ms", cause)
}
