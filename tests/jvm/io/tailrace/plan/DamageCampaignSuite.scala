package io.tailrace.plan

import java.io.File
import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random
import scala.util.control.NonFatal

import org.scalatest.exceptions.TestFailedException

import io.tailrace.testkit._

/** Damages every kind of file that a query leaves, in every way, one file at a time. Then the query either
  * ends with a named error at each start until the file is restored, and gives the right rows after that; or
  * it gives the right rows at once. The table in `jvm/docs/formats.md` says for each kind which of the two it
  * is.
  *
  * The short form does a few damages of each kind; another `TAILRACE_SEED` chooses others. The long form does
  * as many to each query for each of `TAILRACE_FAULTS` seeds: 60 seeds take about an hour.
  */
final class DamageCampaignSuite extends SparkSuite with CampaignSuite {
  import DamageCampaignSuite._

  private val seed = sys.env.get("TAILRACE_SEED").fold(1L)(_.toLong)
  private val done = mutable.Set.empty[FileKind]

  DamagedQueries.all.foreach { query =>
    test(query.name) {
      withConf(query.settings: _*) {
        withDirectory { root =>
          val (stopped, died) = (new File(root, "stopped"), new File(root, "died"))
          val before = new DamagedCheckpoint(spark, query, stopped).write(died)
          val beforeDeath = before.filter(_._1 <= query.diesIn)
          val work = new File(root, "work")
          def on(original: File, before: Map[Long, Seq[String]]) =
            new Originals(
              original,
              () => {
                DamagedCheckpoint.replace(original, work)
                new DamagedCheckpoint(spark, query, work, before)
              }
            )
          val all = Seq(on(stopped, before), on(died, beforeDeath))
          val expected = all.map(_.whole())
          assert(expected.head == expected(1), "a process that dies changes what comes out")
          new Damaging(all, expected.head, work).run()
        }
      }
    }
  }

  test("each kind of file was there") {
    val missing = FileKind.all.filterNot(done)
    assert(missing.isEmpty, "a kind that no query of the campaign makes")
  }

  /** A checkpoint that stays as it is.
    *
    * @param copied a copy of it, which is damaged
    */
  private final class Originals(val root: File, val copied: () => DamagedCheckpoint) {
    private val path = root.toPath

    val kinds: Map[FileKind, Seq[Path]] = DamagedCheckpoint
      .files(path)
      .map(path.relativize(_))
      .map { file =>
        val kind = FileKind.all.find(_.matches(file.toString))
        kind.getOrElse(fail(s"$file has no row in the table of formats.md")) -> file
      }
      .groupMap(_._1)(_._2)

    def bytes(file: Path): Array[Byte] = Files.readAllBytes(path.resolve(file))

    /** All rows of a query that restarts from an undamaged copy. */
    def whole(): Seq[String] = {
      val restarted = copied()
      restarted.attempt().foreach(throw _)
      restarted.output
    }

    def damages(file: Path, harm: FileKind.Harm, random: Random): Seq[Damage] = {
      val (kind, files) = kinds.find(_._2.contains(file)).get
      harm match {
        case FileKind.Gone => Seq(Damages.gone(kind, file))
        case FileKind.Changed => Damages.changed(kind, file, bytes(file), random)
        case FileKind.Anothers =>
          val others = random.shuffle(files.filter(_ != file)).take(6).map(other => other -> bytes(other))
          Damages.anothers(kind, file, bytes(file), others)
      }
    }

    /** Directories with our files. */
    def directories: Seq[Damage] = {
      val ours = for {
        (kind, files) <- kinds.toSeq if kind.isOurs
        file <- files
        parent <- Iterator.iterate(file.getParent)(_.getParent).takeWhile(_.getNameCount > 1)
      } yield Damages.directory(kind, parent)
      ours.distinctBy(_.file).sortBy(_.file.toString)
    }

    def restore(file: Path, to: File): Unit = {
      val (from, target) = (path.resolve(file), to.toPath.resolve(file))
      if (Files.isDirectory(from)) DamagedCheckpoint.replace(from.toFile, target.toFile)
      else {
        Files.deleteIfExists(target.resolveSibling(s".${target.getFileName}.crc"))
        Files.createDirectories(target.getParent)
        Files.write(target, bytes(file))
      }
      ()
    }
  }

  /** The damages of one query's checkpoints. */
  private final class Damaging(all: Seq[Originals], expected: Seq[String], work: File) {
    private val wrong = mutable.Buffer.empty[String]

    /** All damages that will be done, and then what is wrong. */
    def run(): Unit = {
      val kinds = all.flatMap(_.kinds.keys).distinct.sortBy(_.path)
      // A short run takes a kind that several queries have from the first one.
      val checked = kinds.filter(kind => kind.isRead && (Campaign.isLong || !done(kind)))
      done ++= kinds
      Campaign.seeds(short = 1).foreach { n =>
        val random = new Random(seed + n)
        for (kind <- checked; harm <- chosen(kind, random)) {
          val ofEach = for (one <- all) yield newestFirst(one.kinds.getOrElse(kind, Nil)).map(one -> _)
          // The newest of each checkpoint first: logs keep many that no start needs.
          val files = ofEach.flatMap(_.zipWithIndex).sortBy(_._2).map(_._1)
          if (n == 0) untilStopped(files, harm, random) else anyOf(files, harm, random)
        }
        val directories = for (one <- all; damage <- one.directories) yield one -> damage
        random.shuffle(directories).headOption.foreach { case (one, damage) =>
          check(one, damage, isThorough = true)
        }
      }
      assert(wrong.isEmpty, wrong.mkString(s"${wrong.size} of the damages: ", "\n", ""))
    }

    /** The loss of the file and one other harm; in the short form, and for Spark's files, one harm. */
    private def chosen(kind: FileKind, random: Random): Seq[FileKind.Harm] = {
      val harms = FileKind.harms.filter(kind.fates(_) != FileKind.Undetected)
      if (kind.isOurs && Campaign.isLong) harms.take(1) ++ random.shuffle(harms.drop(1)).take(1)
      else random.shuffle(harms).take(1)
    }

    private def anyOf(files: Seq[(Originals, Path)], harm: FileKind.Harm, random: Random): Unit = {
      val (one, file) = files(random.nextInt(files.size))
      random.shuffle(one.damages(file, harm, random)).headOption.foreach(check(one, _, isThorough = true))
    }

    /** Damages one file. If the query doesn't need that file, damages the next one. */
    private def untilStopped(files: Seq[(Originals, Path)], harm: FileKind.Harm, random: Random): Unit = {
      val done = mutable.Buffer.empty[(Damage, Boolean)]
      val left = files.iterator
      while (left.hasNext && done.size < MostTried && !done.exists(_._2)) {
        val (one, file) = left.next()
        random.shuffle(one.damages(file, harm, random)).headOption.foreach { damage =>
          done += damage -> check(one, damage, isThorough = random.nextInt(4) == 0)
        }
      }
      checkStopped(done.toSeq)
    }

    private def checkStopped(done: Seq[(Damage, Boolean)]): Unit = done.headOption.foreach {
      case (first, _) =>
        val stops = first.fate.exists(Set[FileKind.Fate](FileKind.Stops, FileKind.StopsByLength))
        if (stops && !done.exists(_._2)) wrong += s"$first stops nothing"
    }

    /** @param isThorough whether the query is started again, and then with the file restored
      * @return whether the damage has stopped the query
      */
    private def check(one: Originals, damage: Damage, isThorough: Boolean): Boolean =
      try judged(one, damage, isThorough)
      catch {
        case e: TestFailedException =>
          wrong += s"$damage (${one.root.getName}): ${e.getMessage.take(MostTold)}"
          true
      }

    private def judged(one: Originals, damage: Damage, isThorough: Boolean): Boolean = {
      val query = one.copied()
      damage(work.toPath)
      query.attempt() match {
        case None =>
          checkOutput(query)
          false
        case Some(error) =>
          assert(!damage.fate.contains(FileKind.GoesOn), error)
          checkNamed(damage, error)
          if (isThorough) {
            checkNamed(damage, query.attempt().getOrElse(fail("it starts the second time")))
            one.restore(damage.file, work)
            query.attempt().foreach(e => fail("the file is back, and it doesn't start", e))
            checkOutput(query)
          }
          true
      }
    }

    private def checkOutput(query: DamagedCheckpoint): Unit = {
      val found =
        try query.output
        catch { case NonFatal(e) => fail(s"its output can't be read: $e") }
      val (lost, more) = (expected.diff(found), found.diff(expected))
      assert(lost.isEmpty && more.isEmpty, s"wrong rows, and no error: lost $lost, too many $more")
      ()
    }

    private def checkNamed(damage: Damage, error: Throwable): Unit =
      // Spark looks for the operators' state before we do.
      if (!damage.kind.isOurs || damage.harm.isEmpty && DamagedCheckpoint.isNoState(error))
        assert(!DamagedCheckpoint.isAccident(error), error)
      else {
        val (condition, told) =
          DamagedCheckpoint.conditionOf(error).getOrElse(fail(s"no error of ours: $error"))
        val victim = new File(work, damage.file.toString).getPath
        val isNamed = damage.harm match {
          case Some(_) => told.exists(text => Seq(victim, new File(victim).getParent).exists(text.contains))
          case None => told.exists(_.contains(victim))
        }
        assert(isNamed, s"$condition doesn't name it: $told")
      }
  }
}

object DamageCampaignSuite {

  /** Characters of what is wrong with one damage. */
  private val MostTold = 600

  /** The most files of a kind in a row that no start needs. */
  private val MostTried = 4

  /** In the order of the numbers in their names. */
  private def newestFirst(files: Seq[Path]): Seq[Path] =
    files.sortBy(f => f.iterator.asScala.toSeq.drop(1).map(number).mkString).reverse

  private def number(name: Path): String = {
    val digits = name.toString.takeWhile(_.isDigit)
    f"${if (digits.isEmpty) 0L else digits.toLong}%019d"
  }
}
