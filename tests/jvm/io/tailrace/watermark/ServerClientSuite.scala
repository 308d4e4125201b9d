package io.tailrace.watermark

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._

import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{SparkWatermark, TailraceStateException}
import io.tailrace.testkit.{Slow, Warnings}

final class ServerClientSuite extends AnyFunSuite with ServerClients {
  test("the first report has the whole table and the roster, later ones the hosts that have moved") {
    withServer { server =>
      val told = client(server, roster = Some(Seq("a", "b", "c")))
      val hosts = table("a" -> 10, "b" -> 20, "c" -> SparkWatermark.Never)
      assert(told.report(hosts, Array(1)).isEmpty)
      server.low = Some(15)
      hosts.raise(0, 30)
      assert(told.report(hosts, Array(0)).contains(15))
      assert(told.report(hosts, Array()).contains(15))
      assert(
        server.reports.map(server.progress) == Seq(Map("a" -> 10L, "b" -> 20L), Map("a" -> 30L), Map.empty)
      )
      val operator = server.reports.head.at("/operators/0")
      assert(operator.get("operator").asText == "clicks" && operator.get("kind").asText == "source")
      assert(operator.get("completeness").asText == "0.999" && operator.get("upstreams").isEmpty)
      assert(operator.get("roster").elements.asScala.map(_.asText).toSeq == Seq("a", "b", "c"))
      assert(server.reports.forall(_.get("client").asText == "query-1"))
      assert(server.reports.forall(_.get("run").asText == "run-1"))
      val reads = server.reports.map(_.at("/operators/0/reads").elements.asScala.map(_.asText).toSeq)
      assert(reads.distinct == Seq(Seq("file:/logs", "odd%0A")))
      assert(server.reports.tail.forall(!_.at("/operators/0").has("roster")))
      server.needRoster = true
      told.report(hosts, Array())
      told.report(hosts, Array())
      assert(server.reports.last.at("/operators/0").has("roster"))
      assert(server.progress(server.reports.last) == Map("a" -> 30L, "b" -> 20L), "it has no hosts either")
      val versions = server.reports.map(_.at("/operators/0/roster_version").asText)
      // The first digits of `printf 'a\nb\nc' | sha256sum`.
      assert(versions.distinct == Seq("ea7fb08b7a2dc461"))
      client(server, roster = Some(Seq("c", "a", "b"))).report(hosts, Array())
      assert(server.reports.last.at("/operators/0/roster_version").asText == versions.head)
    }
  }

  test("while the server is away a report fails fast; when it is back it gets all hosts that have moved") {
    withServer { server =>
      val told = client(server)
      val hosts = table("a" -> 10, "b" -> 20, "c" -> 30)
      server.low = Some(10)
      assert(told.report(hosts, Array(0, 1, 2)).contains(10))
      server.close()
      val started = System.nanoTime()
      hosts.raise(2, 40)
      assert(told.report(hosts, Array(2)).isEmpty)
      (1 to 50).foreach { i =>
        hosts.raise(i % 2, 100L + i)
        assert(told.report(hosts, Array(i % 2)).isEmpty)
      }
      assert(System.nanoTime() - started < 5e9)
      server.start()
      eventually(patient, often)(assert(told.report(hosts, Array()).contains(10)))
      assert(server.progress(server.reports(1)) == Map("a" -> 150L, "b" -> 149L, "c" -> 40L))
    }
  }

  test("what operators have come to between two reports is owed, once, and no row is unread by then") {
    withServer { server =>
      val told = client(server)
      val hosts = table("a" -> 10)
      def counted(low: Long) = Seq(OperatorReport("count", "operator", "", Seq("clicks"), Map("0" -> low), 1))
      told.note(counted(5))
      assert(!told.isOwed, "no report yet")
      told.report(hosts, Array(0), operators = counted(7), hasUnread = true, batches = Some(4)): Unit
      told.note(counted(7))
      assert(!told.isOwed)
      told.note(counted(9))
      assert(told.isOwed)
      told.repeat(hosts): Unit
      val sent = server.reports.last
      assert(sent.at("/operators/1/low_watermarks/0").asLong == 9 && sent.path("batches").asLong == 4)
      assert(!sent.at("/operators/0").has("unread") && !told.isOwed && server.reports.size == 2)
      // The server has none of this one.
      server.close()
      assert(told.report(hosts, Array(0), operators = counted(9), hasUnread = true).isEmpty)
      told.note(counted(11))
      server.start()
      eventually(patient, often) {
        told.repeat(hosts): Unit
        assert(server.reports.last.at("/operators/1/low_watermarks/0").asLong == 11)
      }
      assert(server.reports.last.at("/operators/0/unread").asBoolean)
    }
  }

  test("the reporter sends again what the server has missed, until the query ends") {
    withServer { server =>
      val isActive = new AtomicBoolean(true)
      val made = settings(server)
      val by = new Reporter(made.server.get, "query-1", "run-1", () => isActive.get)
      val told = client(made, by)
      val hosts = table("a" -> 10, "b" -> 20)
      val sink = Seq(OperatorReport("count", "operator", "", Seq("clicks"), Map("0" -> 7L), 1))
      Reporter.remember(by).attendTo { () =>
        told.synchronized(if (told.isOwed) told.repeat(hosts): Unit)
      }
      by.start()
      server.close()
      told.synchronized {
        assert(told.report(hosts, Array(0, 1), operators = sink, hasUnread = true, batches = Some(4)).isEmpty)
        assert(told.isOwed && !told.isKnown)
      }
      server.globalLow = Some(3)
      server.start()
      eventually(patient, often)(assert(told.synchronized(told.isKnown && !told.isOwed)))
      val report = server.reports.head
      assert(server.progress(report) == Map("a" -> 10L, "b" -> 20L))
      assert(report.at("/operators/1/low_watermarks/0").asLong == 7)
      assert(report.path("batches").asLong == 4 && report.at("/operators/0/unread").asBoolean)
      assert(server.reports.size == 1, "it has all of it")
      assert(told.global.isEmpty, "rows of a micro-batch are stamped with what its report was answered")
      isActive.set(false)
      eventually(patient, often)(assert(server.others.exists(_.path("leaving").asBoolean)))
    }
  }

  test("a report that is sent again has the roster and all hosts if the server has lost them") {
    withServer { server =>
      server.low = Some(1)
      val told = client(server, roster = Some(Seq("a", "b")))
      val hosts = table("a" -> 10, "b" -> 20)
      def report(batches: Long) = told.report(hosts, Array(1), batches = Some(batches))
      assert(report(7).contains(1) && !told.isOwed)
      // It restarts with an older copy of its database.
      server.close()
      assert(report(8).isEmpty && told.isOwed)
      server.batches = Some(5)
      server.start()
      eventually(patient, often)(assert(told.repeat(hosts).contains(1)))
      assert(!told.isOwed)
      val all = server.reports.drop(1)
      assert(all.map(server.progress) == Seq(Map("b" -> 20L), Map("a" -> 10L, "b" -> 20L)))
      assert(all.last.at("/operators/0").has("roster") && all.forall(_.path("batches").asLong == 8))
      // It has lost all.
      server.batches = None
      server.needRoster = true
      assert(told.repeat(hosts).contains(1) && told.isOwed)
      server.needRoster = false
      assert(told.repeat(hosts).contains(1) && !told.isOwed)
      assert(server.progress(server.reports.last) == Map("a" -> 10L, "b" -> 20L))
      assert(server.reports.last.at("/operators/0").has("roster"))
    }
  }

  test("whenever servers are away, in the end they have all that was read, and nothing is owed", Slow) {
    val random = new scala.util.Random(11)
    withServer { server =>
      (1 to 4).foreach { life =>
        val told = client(server)
        val hosts = table((0 until 8).map(i => s"h$i" -> life * 1000L): _*)
        val before = server.reports.size
        (1 to 20).foreach { step =>
          if (random.nextInt(4) == 0) server.failAfter(random.nextInt(3))
          val moved = (0 until 8).filter(_ => random.nextInt(3) == 0).toArray
          moved.foreach(hosts.raise(_, life * 1000L + 10L * step + random.nextInt(10)))
          told.report(hosts, moved, batches = Some(step.toLong)): Unit
          if (told.isOwed && random.nextBoolean()) told.repeat(hosts): Unit
        }
        server.failAfter(-1)
        eventually(patient, often) {
          if (told.isOwed) told.repeat(hosts): Unit
          assert(!told.isOwed)
        }
        val there = server.reports.drop(before)
        assert(
          there.map(server.progress).reduce(_ ++ _) == (0 until 8).map(i => s"h$i" -> hosts.time(i)).toMap
        )
        assert(there.last.path("batches").asLong == 20)
      }
    }
  }

  test("a server that is slow or refuses a report counts as away") {
    withServer { server =>
      server.answers = new CountDownLatch(1)
      val started = System.nanoTime()
      assert(client(server).report(table("a" -> 1), Array(0)).isEmpty)
      assert(System.nanoTime() - started < 4e9)
      server.answers.countDown()
      server.low = Some(1)
      server.status = 422
      val told = client(server)
      assert(told.report(table("a" -> 1), Array(0)).isEmpty)
      server.status = 200
      eventually(patient, often)(assert(told.report(table("a" -> 1), Array()).contains(1)))
      assert(server.progress(server.reports.last) == Map("a" -> 1L))
    }
  }

  test("a server that stops in the middle of its answer counts as away") {
    withServer { server =>
      server.stopsHalfway = true
      val started = System.nanoTime()
      val asked = scala.concurrent.Future(client(server).report(table("a" -> 1), Array(0)))(
        scala.concurrent.ExecutionContext.global
      )
      assert(scala.concurrent.Await.result(asked, scala.concurrent.duration.Duration(10, "s")).isEmpty)
      assert(System.nanoTime() - started < 5e9)
    }
  }

  test(
    "names that no server takes are encoded; times before 1684 and after 2255 become the nearest such time"
  ) {
    withServer { server =>
      val long = "h" * 201
      val names = Seq("" -> 1L, "a\nb" -> 2L, "50%" -> 3L, long -> 4L)
      val times = Seq("old" -> -5L, "odd" -> Long.MaxValue, "oldest" -> (Long.MinValue + 1))
      val hosts = table(names ++ times: _*)
      client(server, roster = Some(Seq("", "c\u0000"))).report(hosts, Array())
      val told = server.progress(server.reports.head)
      assert(told.keySet.forall(name => name.length <= 200 && name.nonEmpty && !name.exists(_.isControl)))
      assert(Seq("%", "a%0Ab", "50%25", "old", "odd").map(told) == Seq(1, 2, 3, -5, (1L << 53) - 1))
      assert(told("oldest") == -((1L << 53) - 1))
      assert(told.keySet.exists(name => name.startsWith("h" * 183 + "~") && name.length == 200))
      val roster = server.reports.head.at("/operators/0/roster").elements.asScala.map(_.asText).toSeq
      assert(roster == Seq("%", "c%00"))
    }
  }

  test("a server of an earlier release gets the fields that it knows, and no time before 1970") {
    withServer { server =>
      server.unknownFields = Seq("version", "batches", "logs")
      server.low = Some(1)
      val told = client(server, logs = Some("web"))
      assert(told.report(table("a" -> 10), Array(0), batches = Some(3)).contains(1))
      assert(server.refused == 3 && server.progress(server.reports.last) == Map("a" -> 10L))
      val waiting =
        OperatorReport("join", "operator", "j", Seq("clicks"), Map("0" -> SparkWatermark.Never), 1)
      assert(told.report(table("a" -> 10), Array(0), operators = Seq(waiting)).contains(1))
      assert(server.reports.last.at("/operators/1/low_watermarks/0").asLong == 0, "which stood for none")
      val warnings = Warnings.of(classOf[ServerConnection].getName) {
        assert(told.report(table("a" -> -10), Array(0)).isEmpty)
      }
      assert(warnings.size == 1 && warnings.head.contains("the host 'a' is before 1970"), warnings)
      assert(server.reports.size == 2)
    }
  }

  test("a report has the version, the query's micro-batches and the name of its logs") {
    withServer { server =>
      client(server, logs = Some("web\n")).report(table("a" -> -10), Array(0), batches = Some(3)): Unit
      val report = server.reports.last
      assert(report.path("version").asInt == 2 && report.path("batches").asLong == 3)
      assert(report.path("query").asText == "hourly")
      assert(report.at("/operators/0/logs").asText == "web%0A")
    }
  }

  test("a server whose database was restored from an older copy is told of all hosts again") {
    withServer { server =>
      server.low = Some(1)
      val told = client(server, roster = Some(Seq("a", "b")))
      val hosts = table("a" -> 10, "b" -> 20)
      def report(batches: Long) = told.report(hosts, Array(1), batches = Some(batches))
      assert(report(7).contains(1))
      server.batches = Some(7)
      assert(report(8).contains(1))
      assert(server.progress(server.reports.last) == Map("b" -> 20L))
      server.batches = Some(5)
      val warnings = Warnings.of(classOf[ServerClient].getName)(assert(report(9).contains(1)))
      assert(warnings.size == 1 && warnings.head.startsWith("TAILRACE_WATERMARK_SERVER_FORGOT: "), warnings)
      assert(warnings.head.contains("knows 5 micro-batches") && warnings.head.contains("acknowledged 8"))
      assert(server.progress(server.reports.last) == Map("a" -> 10L, "b" -> 20L))
      assert(server.reports.last.at("/operators/0").has("roster") && server.reports.size == 4)
    }
  }

  test("an operator that another query reports is an error with a condition") {
    withServer { server =>
      Seq("TAILRACE_WATERMARK_REPORTER_CONFLICT", "TAILRACE_WATERMARK_RUN_REPLACED").foreach { code =>
        server.conflict = Some(code)
        val refused = intercept[TailraceStateException](client(server).report(table("a" -> 1), Array(0)))
        assert(refused.getCondition == code && refused.getMessage.contains("it is the other's"))
      }
      server.conflict = Some("another")
      assert(client(server).report(table("a" -> 1), Array(0)).isEmpty)
    }
  }

  test("a limit that a report exceeds is logged once, however often the server is asked again") {
    withServer { server =>
      server.conflict = Some("")
      val told = client(server)
      val warnings = Warnings.of(classOf[ServerConnection].getName) {
        eventually(patient, often) {
          assert(told.report(table("a" -> 1), Array(0)).isEmpty)
          assert(server.refused >= 2)
        }
      }
      assert(warnings.size == 1, warnings)
      assert(warnings.head.startsWith("TAILRACE_WATERMARK_REPORT_REFUSED: "))
      assert(
        warnings.head.contains("'clicks' of 'my app'") && warnings.head.contains(": it is the other's. ")
      )
      // A refusal after a success is logged again.
      server.conflict = None
      server.low = Some(1)
      eventually(patient, often)(assert(told.report(table("a" -> 1), Array()).contains(1)))
      server.conflict = Some("")
      val again = Warnings.of(classOf[ServerConnection].getName) {
        assert(told.report(table("a" -> 2), Array(0)).isEmpty)
      }
      assert(again.size == 1)
    }
  }

  test("a server that has received only some of the hosts doesn't decide yet") {
    withServer { server =>
      server.low = Some(5)
      val many = new HostTable
      (0 until 120000).foreach(i => many.raise(many.add(s"h$i"), i + 1L))
      assert(client(server).report(many, Array()).contains(5))
      val sizes = server.reports.map(server.progress(_).size)
      assert(sizes == Seq(50000, 50000, 20000))
      // It decides when it has the roster, so the roster comes with the last hosts.
      assert(server.reports.map(_.at("/operators/0").has("roster")) == Seq(false, false, true))
      assert(server.reports.map(_.at("/operators/0/roster_version").asText).distinct.size == 1)
      val long = new HostTable
      (0 until 12000).foreach(i => long.raise(long.add(s"$i-" + "ö" * 400), 1L))
      client(server).report(long, Array())
      assert(server.reports.drop(3).map(server.progress(_).size).sum == 12000)
      assert(server.reports.drop(3).forall(_.toString.getBytes("UTF-8").length < 8000000))
    }
  }

  test(
    "a server that has lost its store gets all hosts before the roster, as long as it asks for the roster"
  ) {
    withServer { server =>
      val many = new HostTable
      (0 until 60000).foreach(i => many.raise(many.add(s"h$i"), i + 1L))
      val told = client(server, roster = Some(Seq("h0", "h59999")))
      server.low = Some(5)
      server.needsUntilTold = true
      assert(told.report(many, Array()).contains(5))
      assert(server.reports.map(server.progress(_).size) == Seq(50000, 10000))
      assert(server.reports.map(_.at("/operators/0").has("roster")) == Seq(false, true))
      assert(told.isKnown)
      // It loses them in between: it gets all hosts when it is back.
      val again = client(server, roster = Some(Seq("h0", "h59999")))
      server.forgetRoster()
      server.failAfter(1)
      assert(again.report(many, Array()).isEmpty && !again.isKnown)
      eventually(patient, often)(assert(again.report(many, Array()).contains(5)))
      assert(server.reports.drop(2).map(server.progress(_).size) == Seq(50000, 50000, 10000))
      assert(server.reports.drop(2).map(_.at("/operators/0").has("roster")) == Seq(false, false, true))
      // It loses them later: the next request finds out, and the one after that has all hosts.
      server.forgetRoster()
      told.report(many, Array(3)): Unit
      told.report(many, Array()): Unit
      assert(server.reports.drop(5).map(server.progress(_).size) == Seq(1, 50000, 10000))
      assert(server.reports.drop(5).map(_.at("/operators/0").has("roster")) == Seq(false, false, true))
    }
  }

  test(
    "a reporter without reports sends heartbeats, and reports the end of its query"
  ) {
    withServer { server =>
      val settings = ServerSettings(Seq(server.url), "my app", "clicks", None)
      @volatile var runs = true
      server.warnings = Seq("look here")
      Reporter.remember(new Reporter(settings, "query-1", "run-1", () => runs, restMs = 300)).start()
      eventually(patient, often)(assert(server.others.size >= 2))
      assert(server.others.forall(r => r.get("run").asText == "run-1" && !r.has("leaving")))
      runs = false
      eventually(patient, often)(assert(server.others.last.path("leaving").asBoolean))
      assert(server.others.count(_.has("leaving")) == 1)
    }
  }

  test("the server decides which hosts are silent") {
    withServer { server =>
      val told = client(server, idleAfterMs = Some(5))
      server.idleHosts = Seq("b", "c")
      told.report(table("a" -> 1), Array(0))
      assert(server.reports.head.at("/operators/0/idle_after").asLong == 5000)
      assert(told.idleHosts == 2)
      server.idleHosts = Nil
      told.report(table("a" -> 1), Array(0))
      assert(told.idleHosts == 0)
    }
  }

  test("each request carries the token") {
    withServer { server =>
      server.token = "secret"
      server.low = Some(7)
      assert(client(server).report(table("a" -> 1), Array(0)).isEmpty)
      assert(client(server, Some("secret")).report(table("a" -> 1), Array(0)).contains(7))
    }
  }
}
