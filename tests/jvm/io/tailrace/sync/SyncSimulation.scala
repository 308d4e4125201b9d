package io.tailrace.sync

import java.util.SplittableRandom

import scala.collection.mutable

import io.tailrace.common.{Policy, Side}

/** One random schedule: partitions of two topics that are written, read, neglected, made and removed, under a
  * query that is killed now and then. [[SyncSimulation.run]] throws if a rule doesn't hold.
  *
  * A row is written at its time or up to `jump` after it, so partitions go back by up to that; a right row is
  * up to `distance` after its left one, or further away on either side, and then must not be its match.
  */
final class SyncSimulation(seed: Long) {
  import SyncSimulation._

  private val random = new SplittableRandom(seed)
  private def below(n: Int): Int = random.nextInt(n)
  private def oneIn(n: Int): Boolean = random.nextInt(n) == 0
  // Whether rows go further back than they may.
  private val wild = oneIn(8)
  private val syncDelay = 1 + below(12)
  private val window = 1 + below(16)
  private val jump = if (wild) syncDelay + 1 + below(10) else below(syncDelay + 1)
  private val distance = if (wild) 0 else below(syncDelay - jump + 1)
  private val onStall = if (oneIn(3)) Policy.Exclude else Policy.Pause
  // Whether the source says which partitions it has.
  private val lists = !oneIn(6)

  private val settings = SyncSettings(
    "simulated",
    syncDelay.toLong,
    window.toLong,
    onStall,
    StallAfterMs,
    Policy.Emit,
    emitsUnmatchedRight = false,
    None
  )
  private val ids = 3 + below(7)
  private val join = new MiniJoin(settings, ids)
  private val sides = Side.values.map(side => new Topic(side)).toArray
  private var now, clock = 0L
  private var wasExcluded = false
  private var crashes = true
  private val seen = new Seen

  /** A partition's log, and how it is being read. */
  private final class Log(val name: String, val isFirst: Boolean, val madeAt: Long, val endsAt: Long) {
    val rows = mutable.ArrayBuffer.empty[(Long, Int, Long)] // written at, id, time
    var at = 0
    var until = 0
    var pace: Pace = Running
    var isGone = false
    var isDead = false

    def written: Int = {
      var i = until
      while (i < rows.size && rows(i)._1 <= now) i += 1
      i
    }

    /** Records that aren't read were never written. */
    def die(): Unit = {
      isDead = true
      rows.takeInPlace(until)
    }
    def isMade: Boolean = madeAt <= now
    def unread: Long = (written - until).toLong
  }

  /** The first partition is there from the beginning to the end. */
  private final class Topic(val side: Side) {
    val logs: Array[Log] = Array.tabulate(1 + below(3)) { i =>
      val made = if (i > 0 && oneIn(3)) 1L + below(Length) else 0L
      val ends = if (i > 0 && oneIn(4)) made + below(Length) else Long.MaxValue
      new Log(Names(i), i == 0, made, ends)
    }

    def write(id: Int, time: Long): Unit = {
      val at = time + below(jump + 1)
      val open = logs.filter(l => l.madeAt <= at && l.endsAt > at)
      val log = open(below(open.length))
      val place = log.rows.lastIndexWhere(_._1 <= at) + 1
      log.rows.insert(place, (at, id, time))
    }

    def listed: Option[Seq[ListedPartition]] =
      if (lists) {
        val all = Seq.newBuilder[ListedPartition]
        logs.foreach { l =>
          if (l.isMade && !l.isGone) all += ListedPartition(l.name, Some(l.unread), l.pace == HeldBack)
        }
        Some(all.result())
      } else None
  }

  private def listed(side: Side): Option[Seq[ListedPartition]] =
    sides(if (side == Side.Left) 0 else 1).listed

  private val (leftTimes, rightTimes) = {
    val lefts, rights = Array.fill(ids)(SyncTimes.Unknown)
    (0 until ids).foreach { id =>
      val time = below(Length).toLong
      val kind = below(10)
      if (kind > 0) lefts(id) = time
      if (kind < 8)
        rights(id) = below(6) match {
          case 0 => Math.max(0L, time - below(2 * window + 2))
          case 1 => time + Math.min(window, syncDelay) + 1 + below(8)
          case _ => time + below(distance + 1)
        }
    }
    (lefts, rights)
  }
  private val leftRead, rightRead = new Array[Boolean](ids)

  private def check(holds: Boolean, what: => String): Unit =
    if (!holds)
      throw new IllegalStateException(s"seed $seed: $what; $settings, jump $jump, distance $distance")

  /** @return what has happened in it */
  def run(): Seen = {
    (0 until ids).foreach { id =>
      if (leftTimes(id) != SyncTimes.Unknown) sides(0).write(id, leftTimes(id))
      if (rightTimes(id) != SyncTimes.Unknown) sides(1).write(id, rightTimes(id))
    }
    (0 until 4 + below(6)).foreach { _ =>
      now += below(12)
      sides.foreach(_.logs.foreach(change))
      if (oneIn(20)) {
        join.restart()
        seen.restarts += 1
      }
      batch(_.pace.most)
    }
    end()
    judge()
    seen
  }

  private def change(log: Log): Unit = if (log.isMade && !log.isGone) {
    if (oneIn(5)) log.pace = Pace.all(below(Pace.all.length))
    // A topic without some of its partitions: what wasn't read is lost. One that has come to its end leaves,
    // too.
    val isFinished = log.endsAt <= now && log.at == log.rows.size
    if (lists && !log.isFirst && (isFinished || oneIn(40))) {
      log.isGone = true
      if (isFinished) seen.finished += 1 else seen.removed += 1
    }
  }

  private def batch(most: Log => Int): Unit = {
    val before = join.times
    clock += 1
    sides.foreach(_.logs.foreach { l =>
      l.until = if (l.isGone || !l.isMade) l.at else Math.min(l.written, l.at + most(l))
    })
    if (crashes && oneIn(20)) {
      read()
      join.crash(clock, listed)
      check(join.times == before, s"$before has become ${join.times} when the batch ran again")
      seen.crashes += 1
    }
    read()
    sides.foreach(_.logs.foreach(l => l.at = l.until))
    join.end(clock, listed)
    val after = join.times
    check(after.release >= before.release && after.leftLow >= before.leftLow, s"$before -> $after")
    sides.foreach(checkConditions)
  }

  private def read(): Unit = sides.foreach { topic =>
    val wasRead = if (topic.side == Side.Left) leftRead else rightRead
    topic.logs.foreach { log =>
      var i = log.at
      while (i < log.until) {
        val (_, id, time) = log.rows(i)
        join.read(topic.side, log.name, id, time)
        if (id != MiniJoin.NoRow) wasRead(id) = true
        i += 1
      }
    }
  }

  private def checkConditions(topic: Topic): Unit = {
    val partitions = join.partitions(topic.side)
    topic.logs.foreach { log =>
      partitions.condition(log.name).foreach { condition =>
        seen.conditions += condition
        wasExcluded |= condition == PartitionCondition.Excluded
        if (lists) {
          val isHeldBack = log.pace == HeldBack && condition != PartitionCondition.Excluded
          check(
            isHeldBack == (condition == PartitionCondition.Paused),
            s"${log.name}, ${log.pace}: $condition"
          )
          val isSilent = condition == PartitionCondition.Idle || condition == PartitionCondition.Stalled
          check(!isSilent || log.unread == 0, s"${log.name} is $condition, and unread")
        }
        check(
          condition != PartitionCondition.Excluded || onStall == Policy.Exclude,
          s"${log.name} is $condition"
        )
      }
    }
  }

  /** Time goes on, and all records are read, except those of partitions that have left. */
  private def end(): Unit = {
    val lastWord = now + 1000
    crashes = false
    // A side may stop as a whole.
    val stops = if (onStall == Policy.Exclude && oneIn(4)) below(2) else -1
    def mayEnd(side: Int): Array[Log] = if (side == stops) sides(side).logs else sides(side).logs.drop(1)
    if (stops >= 0) sides(stops).logs.head.die()
    sides.indices.foreach(mayEnd(_).foreach { log =>
      if (log.isMade && !log.isGone && oneIn(4)) {
        // The source forgets it, or the rules do.
        if (lists && oneIn(2)) log.isGone = true
        else if (onStall == Policy.Exclude) log.die()
      }
    })
    sides.foreach(_.logs.foreach { log =>
      log.pace = Running
      // Those that would be made later are there now.
      if (!log.isDead) log.rows += ((lastWord, MiniJoin.NoRow, lastWord))
    })
    now = lastWord
    var batches = 0
    while (batches < 2 || batches < StallAfterMs + 4 && holdsRows) {
      batch(log => if (log.isDead) 0 else Running.most)
      batches += 1
      // Silence is about others that go on.
      now += 1
      sides.foreach(_.logs.foreach(l => if (!l.isDead) l.rows += ((now, MiniJoin.NoRow, now))))
    }
  }

  private def holdsRows: Boolean = Side.values.exists(join.heldRows(_) > 0)

  private def judge(): Unit = (0 until ids).foreach { id =>
    val hasLeft = leftRead(id)
    check(join.out(id) == (if (hasLeft) 1 else 0), s"left row $id came out ${join.out(id)} times")
    val apart = rightTimes(id) - leftTimes(id)
    val joins = apart >= -window && apart <= Math.min(window, syncDelay)
    val both = hasLeft && rightRead(id) && joins
    check(both || !join.matched(id), s"row $id is matched with nothing, or too far away: $apart")
    if (join.matched(id)) seen.matched += 1
    if (both && !join.matched(id)) {
      seen.lost += 1
      val mayLose = wasExcluded || !lists || wild && join.jumps + join.late > 0
      check(mayLose, s"row $id was lost, ${leftTimes(id)} with ${rightTimes(id)}")
    }
    if (id == 0) {
      def state = Side.values.map(join.partitions(_).state)
      check(!holdsRows, s"rows are held when all is over: ${join.times} $state")
      // Rows that jump back may come too late if the join didn't wait for their partition.
      check(wild || jump > 0 || wasExcluded || !lists || join.jumps == 0, s"${join.jumps} jumps")
      check(wild || wasExcluded || !lists || join.late == 0, s"${join.late} late rows")
    }
  }
}

object SyncSimulation {

  /** A batch takes a millisecond. */
  private val StallAfterMs = 3L
  private val Length = 40
  private val Names = Array("0", "1", "2")

  /** How a partition is read. */
  private sealed abstract class Pace(val most: Int)
  private case object Running extends Pace(1000)
  private case object Slow extends Pace(1)
  private case object Stalled extends Pace(0)
  private case object HeldBack extends Pace(0)

  private object Pace {
    val all: Array[Pace] = Array(Running, Running, Slow, Stalled, HeldBack)
  }

  /** Counts the events of schedules: a simulation without events proves nothing. */
  final class Seen {
    var matched, lost, restarts, crashes, finished, removed = 0L
    val conditions = mutable.Set.empty[PartitionCondition]

    def add(other: Seen): Unit = {
      matched += other.matched
      lost += other.lost
      restarts += other.restarts
      crashes += other.crashes
      finished += other.finished
      removed += other.removed
      conditions ++= other.conditions
    }
  }
}
