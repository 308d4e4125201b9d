package io.tailrace.state

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import io.tailrace.common.TailraceConf
import io.tailrace.testkit.{Campaign, CampaignSuite, StoreFixture, TestRow}

/** Random schedules of attempts, commits, compactions and purges on several executors, with one retained
  * version: the version that the next batch begins with can always be loaded by an executor that knows
  * nothing yet, and holds what its batches have put in. A longer run: `TAILRACE_FAULTS=<schedules>`.
  */
final class ZombieSchedulesSuite extends AnyFunSuite with StoreFixture with Eventually with CampaignSuite {
  private val kind = StoreKind.LeftTimeSorted

  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(10, Seconds), Span(5, Millis))

  private final class Executor(ids: Boolean, fanIn: Int = 2, localBytes: Option[Long] = None) {
    private val conf = storeConf(retain(1) +: Option.when(ids)(CheckpointIds).toSeq: _*)
    private val hadoop = hadoopConf()
    hadoop.set(TailraceConf.CompactionRuns.key, fanIn.toString)
    localBytes.foreach(withLittleDisk(hadoop, _))
    val provider: OwnStoreProvider = newProvider(conf, hadoop = hadoop)

    def open(version: Long, id: Option[String]): TailraceStateStore =
      provider.getStore(version, id).asInstanceOf[TailraceStateStore]
  }

  private def rowOf(version: Long): TestRow = TestRow.of(s"k$version", version, version, s"made by $version")

  private def add(store: TailraceStateStore): TailraceStateStore = {
    val rows = bufferOf(rowOf(store.version))
    store.addRun(1000, kind -> rows)
    rows.close()
    store
  }

  private def commit(store: TailraceStateStore): Option[String] = {
    store.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }

  /** Checks the rows that a new executor reads. */
  private def check(ids: Boolean, version: Long, id: Option[String], schedule: => String): Unit = {
    val fresh = new Executor(ids, fanIn = 1000)
    try {
      val store = fresh.open(version, id)
      try assert(rowsOf(store, kind).sortBy(_.time) == (0L until version).map(rowOf), schedule)
      finally store.abort()
    } catch {
      case e: Throwable if !e.isInstanceOf[org.scalatest.exceptions.TestFailedException] =>
        throw new AssertionError(s"version $version can't be loaded: $schedule", e)
    } finally fresh.provider.close()
  }

  Seq(false, true).foreach { ids =>
    val format = s"checkpoint format ${if (ids) 2 else 1}"

    test(s"a zombie that names replaced runs commits after the purge, and the state stays whole: $format") {
      val (first, second) = (new Executor(ids), new Executor(ids, fanIn = 1000))
      val one = commit(add(first.open(0, None)))
      val two = commit(add(first.open(1, one)))
      def compacted(): TailraceStateStore = {
        val store = first.open(2, two)
        if (store.files > 1) {
          store.abort()
          fail("no compaction yet")
        }
        store
      }
      val three = commit(add(eventually(compacted())))
      // Its executor was lost before Spark heard of version 3. This one finds that version, and counts instead.
      val zombie = add(second.open(2, two))
      commit(add(first.open(3, three)))
      first.provider.maintain()
      commit(zombie)
      if (!ids) assert(checkpointFiles.exists(_.startsWith("3.2-")), "the zombie's doesn't count")
      // Batch 3, which has made version 4, isn't in Spark's commit log yet: it runs again, somewhere else.
      check(ids, 3, three, "the fixed one")
    }

    test(s"random schedules lose no row: $format") {
      Campaign.seeds(short = 4).foreach { seed =>
        emptyDirectory()
        schedule(ids, seed)
      }
    }
  }

  private def schedule(ids: Boolean, seed: Int): Unit = {
    val random = new Random(seed)
    val localBytes = Option.when(random.nextBoolean())(random.nextInt(3000).toLong)
    val executors = Vector.fill(3)(new Executor(ids, localBytes = localBytes))
    val attempts = new ArrayBuffer[TailraceStateStore]
    val steps = new ArrayBuffer[String]
    // What Spark's commit log has.
    var committed = 0L
    var id: Option[String] = None
    var written = Option.empty[Option[String]]
    (0 until 30).foreach { _ =>
      random.nextInt(8) match {
        case 0 | 1 | 2 if attempts.size < 4 =>
          val executor = random.nextInt(executors.size)
          steps += s"begin $committed on $executor"
          attempts += add(executors(executor).open(committed, id))
        case 3 | 4 | 5 if attempts.nonEmpty =>
          val attempt = attempts.remove(random.nextInt(attempts.size))
          steps += s"write ${attempt.version + 1}"
          val made = commit(attempt)
          // Without ids Spark takes whatever stands under the version's name.
          if (attempt.version == committed) written = Some(made)
        case 6 =>
          val executor = random.nextInt(executors.size)
          steps += s"purge on $executor"
          executors(executor).provider.maintain()
        case _ if written.nonEmpty =>
          steps += s"batch $committed is done"
          id = written.get
          committed += 1
          written = None
        case _ =>
      }
      // The compaction runs beside it, and sometimes ends.
      if (random.nextInt(3) == 0) Compactor.awaitEnd()
      if (committed > 0) check(ids, committed, id, s"seed $seed: ${steps.mkString(", ")}")
    }
    attempts.foreach(_.abort())
    executors.foreach(_.provider.close())
  }
}
