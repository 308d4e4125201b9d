package io.tailrace.watermark

import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite

/** What operators do, in words, in the reports to a watermark server. */
final class ServerLabelsSuite extends AnyFunSuite with ServerClients {
  test("reports say what operators do, but to a server of an earlier release") {
    withServer { server =>
      val told = client(server)
      val join = OperatorReport("clicks/join", "operator", "join on id", Seq("clicks"), Map("0" -> 5L), 1)
      def report() = told.report(table("a" -> 10), Array(0), operators = Seq(join))
      server.low = Some(1)
      assert(report().contains(1))
      val labels = Map("clicks" -> "source (Kafka: clicks; odd??)", "clicks/join" -> "join on id")
      assert(server.labels(server.reports.last) == labels)
      server.refusesLabels = true
      assert(report().contains(1) && report().contains(1))
      assert(server.refused == 1 && server.labels(server.reports.last).isEmpty, "it is told once")
      assert(server.progress(server.reports.last) == Map("a" -> 10L))
      // It is upgraded: queries see that it is away, and come back.
      server.close()
      assert(report().isEmpty)
      server.refusesLabels = false
      server.start()
      eventually(patient, often) {
        assert(report().isDefined)
        assert(server.labels(server.reports.last) == labels)
      }
    }
  }

  test("a label that the user has given counts") {
    withServer { server =>
      val told = client(server, labels = Map("clicks" -> "all clicks", "other" -> "nobody's"))
      told.report(table("a" -> 10), Array(0)): Unit
      assert(server.labels(server.reports.last) == Map("clicks" -> "all clicks"))
    }
  }
}
