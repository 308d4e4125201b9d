package io.tailrace.state

import java.io.File

import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import io.tailrace.common.{TailraceConf, TailraceStateException}
import io.tailrace.testkit.{
  Campaign,
  CampaignSuite,
  FileFault,
  FileFaults,
  FileStep,
  StoreFixture,
  TestRow,
  WatchedFiles
}

/** The state of one partition on a file system that fails now and then, at any step and on any file: each
  * failure names its file, each second attempt gets the rows that were committed, and files that no version
  * needs are purged.
  */
final class StoreFaultsSuite extends AnyFunSuite with StoreFixture with CampaignSuite {
  private val kind = StoreKind.RightKeySorted
  private val retained = 3
  private val steps = FileStep.all.filter(_ != FileStep.Look)

  private final class Life(seed: Int, ids: Boolean) {
    private val random = new Random(seed)
    private val conf = storeConf(Seq(retain(retained)) ++ Option.when(ids)(CheckpointIds): _*)
    // By version: what it is known under, and its rows.
    private var versions = Vector[(Option[String], Set[TestRow])]((None, Set.empty))
    private var provider = start()

    private def start() = {
      val hadoop = if (random.nextInt(3) == 0) withoutInlineRuns(hadoopConf()) else hadoopConf()
      if (random.nextInt(3) == 0) withLittleDisk(hadoop, random.nextInt(3000).toLong)
      if (random.nextInt(3) == 0) hadoop.unset(TailraceConf.BackgroundLoadBytes.key)
      newProvider(conf, hadoop = WatchedFiles.configure(hadoop))
    }

    private def fault(): FileFault = {
      val step = steps(random.nextInt(steps.size))
      val file = Seq("run$", "manifest$", ".").map(_.r)
      FileFault(step, file(random.nextInt(3)), 1 + random.nextInt(20), 1 + random.nextInt(3))
    }

    /** Until it works, as a task that is tried again. */
    private def persistently[T](body: => T): T = {
      def attempt(left: Int): T =
        try body
        catch {
          case e: TailraceStateException if left > 0 =>
            assert(e.getCondition == "TAILRACE_STATE_FILE_UNAVAILABLE", s"seed $seed")
            assert(e.getMessageParameters.get("file").contains("/0/0"), s"seed $seed")
            attempt(left - 1)
        }
      attempt(20)
    }

    private def reading[T](version: Int, by: OwnStoreProvider)(body: TailraceStateStore => T): T = {
      val (id, rows) = versions(version)
      val store = by.getStore(version.toLong, id).asInstanceOf[TailraceStateStore]
      try {
        assert(rowsOf(store, kind).toSet == rows, s"seed $seed, version $version")
        body(store)
      } finally store.abort()
    }

    private def step(): Unit = {
      val version = versions.size - 1
      val times = Seq.fill(1 + random.nextInt(4))(random.nextInt(30) + 10L * version)
      val through = 10L * (version - random.nextInt(6))
      versions :+= persistently(reading(version, provider) { store =>
        val added = times.map(t => TestRow.of(s"k$t", t, store.newSeq(), s"made by $version"))
        val buffer = bufferOf(added)
        try store.addRun(10, kind -> buffer)
        finally buffer.close()
        store.dropThrough(kind, through)
        val rows = rowsOf(store, kind).toSet
        assert((versions(version)._2 ++ added).filter(_.time > through).subsetOf(rows))
        store.commit()
        (store.getStateStoreCheckpointInfo().stateStoreCkptId, rows)
      })
    }

    private def old: Int = Math.max(0, versions.size - 1 - random.nextInt(retained + 1))

    private def actAtRandom(): Unit = random.nextInt(10) match {
      case 0 | 1 => persistently(provider.maintain())
      case 2 => provider.close(); provider = start()
      case 3 => persistently(reading(old, provider)(_ => ()))
      case _ => step()
    }

    def live(): Int = {
      val (_, fired) = FileFaults.during(Seq.fill(12)(fault()): _*)((1 to 40).foreach(_ => actAtRandom()))
      step()
      val fresh = start()
      (Math.max(0, versions.size - 1 - retained) until versions.size).foreach(reading(_, fresh)(_ => ()))
      fresh.maintain()
      assert(leftOver() == Set.empty, s"seed $seed")
      fired.size
    }

    /** Files that no version which is retained needs, but those that are too young to tell. */
    private def leftOver(): Set[String] = {
      val oldest = Math.max(1, versions.size - 1 - retained)
      val files = new CheckpointFiles(new Path(storeDirectory.toURI), new Configuration)
      val named =
        (oldest until versions.size).flatMap(v => files.readManifest(v.toLong, versions(v)._1).fileNames)
      val checksums = named.map(name => s".$name.crc")
      val versionOf = """\.*(\d+).*""".r
      (storeDirectory.list.toSet -- named -- checksums).collect {
        case name @ versionOf(v) if v.toInt < oldest => name
      }
    }
  }

  Seq(false, true).foreach { ids =>
    test(s"commits, loads and purges on a failing file system, checkpoint format ${if (ids) 2 else 1}") {
      val fired = Campaign.seeds(short = 6).map { seed =>
        emptyDirectory()
        new Life(seed, ids).live()
      }
      assert(fired.count(_ >= 3) > fired.size / 2, "too few steps have failed: it proves little")
    }
  }

  Seq("run$", "manifest$").foreach { file =>
    test(s"no local file is left by attempts that failed at a $file") {
      def hadoop() = if (file == "run$") withoutInlineRuns(hadoopConf()) else hadoopConf()
      val provider = newProvider(hadoop = WatchedFiles.configure(hadoop()))
      val store = open(provider, 0)
      store.addRun(10, kind -> bufferOf(TestRow.of("k", 1, 1)))
      store.commit()
      val fresh = newProvider(hadoop = WatchedFiles.configure(hadoop()))
      val (_, fired) = FileFaults.during(FileFault(FileStep.Read, file.r, nth = 2)) {
        assertThrows[TailraceStateException](open(fresh, 1))
      }
      assert(fired.size == 1)
      val again = open(fresh, 1)
      val local = again.sectionsOf(kind).head.local.file
      assert(local.getParentFile.listFiles.toSeq == Seq[File](local))
      again.abort()
    }
  }
}
