package io.tailrace.watermark

import java.io.IOException
import java.util.concurrent.CountDownLatch

import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}
import io.tailrace.testkit.{Slow, Warnings, WatermarkServerStub}

final class ServerFailoverSuite extends AnyFunSuite {

  private def withThree(
      body: (Seq[WatermarkServerStub], WatermarkServerStub, WatermarkServerStub, WatermarkServerStub) => Unit
  ): Unit = {
    val servers = Seq.fill(3)(new WatermarkServerStub().start())
    try body(servers, servers(0), servers(1), servers(2))
    finally servers.foreach(_.close())
  }

  private def withTwo(
      body: (Seq[WatermarkServerStub], WatermarkServerStub, WatermarkServerStub) => Unit
  ): Unit =
    withThree((servers, a, b, _) => body(servers.take(2), a, b))

  private def settings(servers: Seq[WatermarkServerStub]) =
    ServerSettings(servers.map(_.url), "my app", "clicks", None)

  private def reporter(servers: Seq[WatermarkServerStub]) =
    new Reporter(settings(servers), "query-1", "run-1", () => true)

  /** A report, without the pauses between attempts. */
  private def report(by: Reporter, servers: Seq[WatermarkServerStub]): Unit = {
    val body = by.newBody()
    body.putArray("operators").addObject().put("operator", "clicks")
    by.report(by.newConnection(settings(servers)), body): Unit
  }

  private def asked(servers: Seq[WatermarkServerStub])(requests: => Unit): Seq[Int] = {
    val before = servers.map(_.asked)
    requests
    servers.map(_.asked).zip(before).map { case (now, then) => now - then }
  }

  test(
    "the server that answered last is asked first; the next ones follow, and the first one after the last"
  ) {
    withThree { (servers, a, b, c) =>
      val by = reporter(servers)
      def send() = report(by, servers)
      assert(asked(servers)(send()) == Seq(1, 0, 0))
      a.close()
      b.close()
      val warnings = Warnings.of(classOf[ServerFailover].getName) {
        assert(asked(servers)(send()) == Seq(0, 0, 1))
        a.start()
        assert(asked(servers)(send()) == Seq(0, 0, 1))
      }
      assert(warnings.size == 1)
      assert(warnings.head.startsWith(s"TAILRACE_WATERMARK_SERVER_REPLACED: ${c.url} is asked from now on: "))
      assert(Seq(a, b).forall(gone => warnings.head.contains(s"${gone.url} has not answered (")))
      c.status = 503
      assert(asked(servers)(send()) == Seq(1, 0, 1))
      assert(asked(servers)(send()) == Seq(1, 0, 0))
      b.start()
      assert(asked(servers)(send()) == Seq(1, 0, 0))
    }
  }

  test("no connection, no answer in time, half an answer and 5xx are tried at the next server", Slow) {
    withTwo { (servers, a, b) =>
      def fails(isWith: => Unit, isWithout: => Unit): Unit = {
        val by = reporter(servers)
        report(by, servers)
        isWith
        assert(asked(Seq(b))(report(by, servers)) == Seq(1))
        isWithout
      }
      fails(a.close(), a.start())
      fails(a.status = 500, a.status = 200)
      fails(a.status = 503, a.status = 200)
      fails(a.stopsHalfway = true, a.stopsHalfway = false)
      fails(a.answers = new CountDownLatch(1), a.answers.countDown())
    }
  }

  test("a refusal is an answer, which no other server is asked for") {
    withTwo { (servers, a, b) =>
      val by = reporter(servers)
      Seq(302, 400, 401, 403, 404, 408, 413, 421, 422).foreach { status =>
        a.status = status
        val refused = intercept[IOException](report(by, servers))
        assert(refused.getMessage == s"status $status: the reason")
      }
      a.status = 200
      a.conflict = Some("another")
      assert(intercept[IOException](report(by, servers)).getMessage == "it is the other's")
      a.conflict = Some("TAILRACE_WATERMARK_RUN_REPLACED")
      intercept[TailraceStateException](report(by, servers))
      assert(b.asked == 0)
    }
  }

  test("the error names each server with its reason if all fail", Slow) {
    withThree { (servers, a, b, c) =>
      val by = reporter(servers)
      report(by, servers)
      a.close()
      b.status = 503
      c.answers = new CountDownLatch(1)
      val failed = intercept[IOException](report(by, servers))
      val reasons = failed.getMessage.split("; ").toSeq
      assert(reasons.size == 3 && failed.getSuppressed.length == 3)
      assert(reasons.head.startsWith(s"${a.url} has not answered (java.net.ConnectException"))
      assert(reasons(1) == s"${b.url} has not answered (java.io.IOException: status 503: the reason)")
      assert(
        reasons(2) == s"${c.url} has not answered (java.io.IOException: no whole answer within 2000 ms)"
      )
      val warnings = Warnings.of(classOf[ServerConnection].getName) {
        val connection = by.newConnection(settings(servers))
        assert(connection.attempt("the query goes on")(connection.report(by.newBody())).isEmpty)
      }
      assert(
        warnings.size == 1 && servers.forall(one => warnings.head.contains(s"${one.url} has not answered"))
      )
      c.answers.countDown()
    }
  }

  private def differing(body: => Unit): Map[String, String] = {
    val error = intercept[TailraceStateException](body)
    assert(error.getCondition == "TAILRACE_WATERMARK_STORES_DIFFER")
    error.getMessageParameters.forEach((_, value) => assert(error.getMessage.contains(value)))
    Seq("server", "store", "another", "otherStore").map(n => n -> error.getMessageParameters.get(n)).toMap
  }

  test("servers of two stores end the query before either of them has a report") {
    withTwo { (servers, a, b) =>
      a.store = Some("A")
      b.store = Some("B")
      val by = reporter(servers)
      val expected = Map("server" -> a.url, "store" -> "A", "another" -> b.url, "otherStore" -> "B")
      assert(differing(report(by, servers)) == expected)
      assert(differing(report(by, servers)).keySet == expected.keySet, "the next attempt is refused too")
      assert(servers.forall(_.asked == 0))
      b.store = Some("A")
      report(by, servers)
      assert(servers.map(_.asked) == Seq(1, 0))
      // One that doesn't say it is taken at its word.
      b.store = None
      report(reporter(servers), servers)
    }
  }

  test("a server that was away when the query began is compared when it answers") {
    withTwo { (servers, a, b) =>
      Seq(a, b).foreach(_.store = Some("A"))
      b.close()
      val by = reporter(servers)
      report(by, servers)
      b.store = Some("B")
      b.start()
      report(by, servers)
      a.close()
      val found = differing(report(by, servers))
      assert(found == Map("server" -> a.url, "store" -> "A", "another" -> b.url, "otherStore" -> "B"))
      // Its refusals say it too, and so does what another part of the query is told.
      b.status = 422
      assert(differing(report(by, servers)) == found)
      a.start()
      assert(differing(report(by, servers)).keySet == found.keySet)
    }
  }

  test("all parts of a query go on at the server that one of them has found") {
    withTwo { (servers, a, _) =>
      val by = reporter(servers)
      val sink = new SinkClient(settings(servers), () => Some(by), "/out")
      report(by, servers)
      a.status = 503
      assert(sink.report(5, Seq("clicks"), Nil).isDefined)
      a.status = 200
      assert(asked(servers)(report(by, servers)) == Seq(0, 1))
      assert(asked(servers)(sink.report(5, Seq("clicks"), Nil)) == Seq(0, 1))
    }
  }

  private def options(server: String) = ServerOptions(
    WatermarkOptions.accurate,
    Some(server),
    app = Some("app"),
    operator = None,
    defaultOperator = "source",
    token = None
  )

  test("several servers are named with commas, in the order in which they are asked") {
    val found = options("http://b:8080, https://a:1,http://[::1]:2/").settings.get
    assert(found.urls == Seq("http://b:8080", "https://a:1", "http://[::1]:2/"))
    Seq("", ",", "http://a:1,", ",http://a:1", "http://a:1,,http://b:1", "http://a:1,b:2").foreach { given =>
      val refused = intercept[TailraceAnalysisException](options(given).settings)
      assert(refused.getCondition == "TAILRACE_OPTION_INVALID" && refused.getMessage.contains("none of them"))
    }
  }

  test("a server that is named twice is refused by both names") {
    Seq(
      "http://a:1" -> "http://a:1",
      "http://a:1" -> "http://a:1/",
      "http://a" -> "http://A:80",
      "https://a" -> "https://a:443"
    ).foreach { case (one, same) =>
      val refused = intercept[TailraceAnalysisException](options(s"$one,http://b:1,$same").settings)
      assert(refused.getMessage.contains(s"$one and $same are one"))
    }
    assert(options("http://a:1,http://a:2,https://a:1").settings.get.urls.size == 3)
  }

  test("reporters that have a server in common report beside each other") {
    def at(server: String) = options(server).settings.get
    assert(at("http://a:1,http://b:1").isBeside(at("http://B:1/")))
    assert(!at("http://a:1,http://b:1").isBeside(at("http://c:1")))
    assert(!at("http://a:1").isBeside(at("http://a:1").copy(app = "another")))
  }
}
