package io.tailrace.common

import scala.util.Try

import org.apache.hadoop.fs.Path
import org.apache.spark.unsafe.types.UTF8String

/** All settings `spark.tailrace.*`. They are read from the session when a query is planned. A setting may be
  * changed between two runs of a query, unless its comment says otherwise.
  */
object TailraceConf {

  /** The bytes of rows that a task holds for one side of a join before it writes them as a sorted run, and of
    * expiring rows that it works on at a time. More bytes give fewer runs to merge.
    */
  val BatchBufferBytes: BytesEntry =
    new BytesEntry("spark.tailrace.state.batchBufferBytes", 64L << 20, least = 1, most = 1L << 40)

  /** The number of time buckets in the time that a row stays. A bucket whose rows have expired is dropped. */
  val BucketsPerWindow: NumberEntry =
    new NumberEntry("spark.tailrace.state.bucketsPerWindow", 4, least = 1, most = 1000)

  /** The bytes of the RocksDB block cache that an executor's stores share: the largest value of the queries on it. */
  val BlockCacheBytes: BytesEntry =
    new BytesEntry("spark.tailrace.state.blockCacheBytes", 128L << 20, least = 0, most = 1L << 40)

  /** The number of runs of about the same size that are merged into one in the background. A smaller value
    * gives fewer files to merge at expiry, a larger one writes rows again less often.
    */
  val CompactionRuns: NumberEntry =
    new NumberEntry("spark.tailrace.state.compactionRuns", 32, least = 2, most = 1000)

  /** The bytes of a batch's runs that are written into the file of the manifest, which makes one file of two.
    * A larger run is copied into the checkpoint while its task continues.
    */
  val InlineRunBytes: BytesEntry =
    new BytesEntry("spark.tailrace.state.inlineRunBytes", 8L << 20, least = 0, most = 1L << 30)

  /** A partition that comes to an executor with more bytes of state than this is handed to its task at once,
    * and its runs are copied in the background. With fewer bytes, the task waits for all of them.
    */
  val BackgroundLoadBytes: BytesEntry =
    new BytesEntry("spark.tailrace.state.backgroundLoadBytes", 64L << 20, least = 0, most = 1L << 50)

  /** The bytes of runs that an executor keeps on its local disks. Beyond that, runs that haven't been read for
    * the longest time are emptied, and are copied from the checkpoint again when they are read.
    */
  val LocalRunBytes: BytesEntry =
    new BytesEntry("spark.tailrace.state.localRunBytes", 1L << 50, least = 0, most = 1L << 50)

  /** Directories on an executor's disks where the local files of the state outlive it. The next executor on the
    * machine uses them, instead of copies from the checkpoint. Without any, Spark's local directories are used,
    * and deleted with the executor. The lists of two executors of a machine should be the same.
    */
  val LocalDirectory: PathsEntry = new PathsEntry("spark.tailrace.state.localDirectory")

  /** True if the state is written to the checkpoint's file system. If so, a commit waits for it. */
  val StateDurability: ChoiceEntry[Durability] =
    new ChoiceEntry(
      "spark.tailrace.state.durability",
      Durability.Full,
      Durability.values.map(d => d.name -> d)
    )

  /** When a grouped join (`how="left"`) looks for matches: see `io.tailrace.label.MatchStrategy`. With `auto`
    * the planner decides. A checkpoint is bound to this setting: with another one its query is refused.
    */
  val JoinStrategy: ChoiceEntry[String] =
    new ChoiceEntry("spark.tailrace.join.strategy", "auto", Seq("auto", "lazy", "eager").map(w => w -> w))

  /** The bytes of the largest table that a recursion's op broadcasts for a join: then hops need no exchange
    * and no job of their own. Spark's own limit counts if it is greater, or -1.
    */
  val RecursionBroadcastBytes: BytesEntry =
    new BytesEntry("spark.tailrace.recursion.broadcastBytes", 128L << 20, least = 0, most = 8L << 30)

  /** True if a replay filter starts without marks if those of earlier batches are missing. Replays of earlier
    * records pass then. It is for one start of a query, by a user who knows why the marks are missing.
    */
  val ReplayBeginAnew: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.replay.beginAnew", false, Seq("true" -> true, "false" -> false))

  /** True if a query is refused, or warned of, if its metadata would make originals look like replays. */
  val ReplayProducerCheck: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.replay.producerCheck", true, Seq("refuse" -> true, "warn" -> false))

  /** True if an accurate watermark starts without hosts if its files are missing in the checkpoint of a query
    * that has run. It is for one start of a query, by a user who knows why they are missing.
    */
  val WatermarkBeginAnew: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.watermark.beginAnew", false, Seq("true" -> true, "false" -> false))

  /** Descriptions of operators in the user's words, by their names at the watermark server. The default is the
    * text that `OperatorWords` derives from the plan. A query reads it when it starts.
    */
  val WatermarkLabels: LabelsEntry = new LabelsEntry("spark.tailrace.watermark.labels")

  /** A directory for the progress of all queries of the application, which `tailrace-progress` reads. An
    * application reads it once, when `io.tailrace.monitor.MetricsListener` receives the first query.
    */
  val MonitorHistory: LocationEntry = new LocationEntry("spark.tailrace.monitor.history")

  /** A warning is logged if a join has had input for this time without output, and the reason is known. */
  val NoOutputAfter: DurationEntry =
    new DurationEntry("spark.tailrace.monitor.noOutputAfter", default = 10L * 60 * 1000)

  /** True if clients of a Spark Connect server may use `tailrace.testing` on it: such tests make files of checkpoints
    * fail, those of other queries too. It is set when the server starts.
    */
  val ConnectTesting: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.connect.testing", false, Seq("true" -> true, "false" -> false))

  private[common] val all: Seq[ConfEntry[_]] = Seq[ConfEntry[_]](
    BatchBufferBytes,
    BucketsPerWindow,
    BlockCacheBytes,
    CompactionRuns,
    InlineRunBytes,
    BackgroundLoadBytes,
    LocalRunBytes,
    LocalDirectory,
    StateDurability,
    JoinStrategy,
    RecursionBroadcastBytes,
    ReplayBeginAnew,
    ReplayProducerCheck,
    WatermarkBeginAnew,
    WatermarkLabels,
    MonitorHistory,
    NoOutputAfter,
    ConnectTesting
  )

  /** Refuses a key that no setting has: a misspelt setting would be ignored silently.
    *
    * @param keys of a session, also those that aren't Tailrace's
    * @throws TailraceAnalysisException TAILRACE_CONF_UNKNOWN
    */
  def checkKeys(keys: Iterable[String]): Unit = {
    val known = all.map(_.key)
    keys.find(key => key.startsWith("spark.tailrace.") && !known.contains(key)).foreach { key =>
      val written = UTF8String.fromString(key)
      val nearest = known.minBy(UTF8String.fromString(_).levenshteinDistance(written))
      throw Errors.confUnknown(key, nearest, known.sorted)
    }
  }

  /** @throws TailraceAnalysisException TAILRACE_CONF_INVALID for a value that isn't allowed */
  def check(get: String => Option[String]): Unit = all.foreach(_.read(get))
}

/** @see [[TailraceConf.StateDurability]] */
sealed abstract class Durability(val name: String)

object Durability {
  case object Full extends Durability("full")
  case object None extends Durability("none")

  val values: Seq[Durability] = Seq(Full, None)
}

/** A setting: its key, its default and its allowed values. */
sealed abstract class ConfEntry[T](val key: String, val default: T, expected: String) {
  protected def parse(text: String): Option[T]

  /** @param get the value that is set for a key, if any */
  def read(get: String => Option[String]): T =
    get(key).fold(default)(text => parse(text.trim).getOrElse(throw Errors.confInvalid(key, text, expected)))
}

/** A whole number from `least` to `most`. */
final class NumberEntry(key: String, default: Long, least: Long, most: Long)
    extends ConfEntry[Long](key, default, s"a whole number from $least to $most") {
  override protected def parse(text: String): Option[Long] =
    text.toLongOption.filter(value => value >= least && value <= most)
}

/** A number of bytes from `least` to `most`, plain or with one of Spark's units. */
final class BytesEntry(key: String, default: Long, least: Long, most: Long)
    extends ConfEntry[Long](
      key,
      default,
      s"a whole number of bytes, or one with a unit such as 64k, 16m or 1g, from $least to $most bytes"
    ) {
  override protected def parse(text: String): Option[Long] =
    Bytes.read(text).filter(value => value >= least && value <= most)
}

/** Absolute paths of a machine, with commas between them; none by default. */
final class PathsEntry(key: String)
    extends ConfEntry[Seq[String]](
      key,
      Nil,
      "absolute paths of local directories, with commas between them"
    ) {
  override protected def parse(text: String): Option[Seq[String]] = {
    val paths = text.split(',').iterator.map(_.trim).filter(_.nonEmpty).toSeq
    Option.when(paths.forall(_.startsWith("/")))(paths)
  }
}

/** Texts by names, `source/stateStoreSave-0=clicks a minute; source/sink=the dashboard`; none by default. */
final class LabelsEntry(key: String)
    extends ConfEntry[Map[String, String]](
      key,
      Map.empty,
      "names of operators with =, their labels, and semicolons between them: source/stateStoreSave-0=clicks a minute"
    ) {
  override protected def parse(text: String): Option[Map[String, String]] = {
    val entries = text.split(';').toSeq.map(_.trim).filter(_.nonEmpty).map(_.split("=", 2).map(_.trim))
    val isWhole = entries.forall(entry => entry.length == 2 && entry.forall(_.nonEmpty))
    Option.when(isWhole && entries.map(_.head).distinct.size == entries.size)(
      entries.map(entry => entry(0) -> entry(1)).toMap
    )
  }
}

/** A directory on any file system that Hadoop knows; none by default. */
final class LocationEntry(key: String)
    extends ConfEntry[Option[Path]](key, None, "the location of a directory, such as s3a://bucket/history") {
  override protected def parse(text: String): Option[Option[Path]] =
    Try(new Path(text)).toOption.map(Some(_))
}

/** A duration in milliseconds, at least one. */
final class DurationEntry(key: String, default: Long)
    extends ConfEntry[Long](key, default, "a duration of a millisecond or more, such as 10 minutes") {
  override protected def parse(text: String): Option[Long] =
    Durations.read(text).map(_ / 1000).filter(_ >= 1)
}

/** One of several words, in lower or upper case. */
final class ChoiceEntry[T](key: String, default: T, choices: Seq[(String, T)])
    extends ConfEntry[T](key, default, choices.map(_._1).mkString("one of ", ", ", "")) {
  override protected def parse(text: String): Option[T] =
    choices.collectFirst { case (name, value) if name.equalsIgnoreCase(text) => value }
}
