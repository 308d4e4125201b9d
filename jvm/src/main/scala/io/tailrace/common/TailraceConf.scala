package io.tailrace.common

/** Every `spark.tailrace.*` key. They are read from the session when a query is planned and travel to the executors with
  * the operator; none of them changes the meaning of a checkpoint, so each can be changed between two runs, unless it says
  * otherwise.
  */
object TailraceConf {

  /** Bytes of rows that a task holds for one side of a join before it writes them out as a sorted run, and bytes of
    * expiring rows that it works on at a time. Larger: fewer runs to merge; smaller: less memory.
    */
  val BatchBufferBytes: NumberEntry =
    new NumberEntry("spark.tailrace.state.batchBufferBytes", 64L << 20, least = 1, most = 1L << 40)

  /** Time buckets in the time that a row stays: a bucket is dropped whole when its last row has expired. */
  val BucketsPerWindow: NumberEntry =
    new NumberEntry("spark.tailrace.state.bucketsPerWindow", 4, least = 1, most = 1000)

  /** Bytes of the RocksDB block cache that all stores of an executor share. Takes effect when the executor starts. */
  val BlockCacheBytes: NumberEntry =
    new NumberEntry("spark.tailrace.state.blockCacheBytes", 128L << 20, least = 0, most = 1L << 40)

  /** Runs of about the same size that are merged into one, off the hot path. Fewer: fewer files to merge with at expiry;
    * more: rows are written again less often.
    */
  val CompactionRuns: NumberEntry =
    new NumberEntry("spark.tailrace.state.compactionRuns", 32, least = 2, most = 1000)

  /** Whether a commit waits until the state is on the checkpoint's file system, or isn't written there at all. */
  val StateDurability: ChoiceEntry[Durability] =
    new ChoiceEntry(
      "spark.tailrace.state.durability",
      Durability.Full,
      Durability.values.map(d => d.name -> d)
    )

  /** When a grouped join (`how="left"`) looks for matches: see `io.tailrace.label.MatchStrategy`. `auto` leaves it to the planner.
    * The one setting that a checkpoint is bound to: with another one its query is refused.
    */
  val JoinStrategy: ChoiceEntry[String] =
    new ChoiceEntry("spark.tailrace.join.strategy", "auto", Seq("auto", "lazy", "eager").map(w => w -> w))

  /** Bytes of a table that a recursion's op joins, up to which it is broadcast: then rows go round within their tasks, and
    * not by an exchange and a job a hop. Spark's own limit counts if that is greater, or -1.
    */
  val RecursionBroadcastBytes: NumberEntry =
    new NumberEntry("spark.tailrace.recursion.broadcastBytes", 128L << 20, least = 0, most = 8L << 30)

  /** Whether a replay filter begins without marks where those of earlier batches are missing. For one start of a query, by a
    * user who knows why they are: replays of earlier records pass then.
    */
  val ReplayBeginAnew: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.replay.beginAnew", false, Seq("true" -> true, "false" -> false))

  /** Whether a query is refused that writes records' metadata of which originals would look like replays, or warned of. */
  val ReplayProducerCheck: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.replay.producerCheck", true, Seq("refuse" -> true, "warn" -> false))

  /** Whether an accurate watermark that has no progress in the checkpoint of a query that has run begins with nothing. For one
    * start of a query, by a user who knows why it has none.
    */
  val WatermarkBeginAnew: ChoiceEntry[Boolean] =
    new ChoiceEntry("spark.tailrace.watermark.beginAnew", false, Seq("true" -> true, "false" -> false))

  private val all: Seq[ConfEntry[_]] =
    Seq(BatchBufferBytes, BucketsPerWindow, BlockCacheBytes, CompactionRuns, StateDurability, JoinStrategy) :+
      RecursionBroadcastBytes :+ ReplayBeginAnew :+ ReplayProducerCheck :+ WatermarkBeginAnew

  /** @throws org.apache.spark.sql.AnalysisException TAILRACE_CONF_INVALID if a key that is set makes no sense */
  def check(get: String => Option[String]): Unit = all.foreach(_.read(get))
}

/** @see [[TailraceConf.StateDurability]] */
sealed abstract class Durability(val name: String)

object Durability {
  case object Full extends Durability("full")
  case object None extends Durability("none")

  val values: Seq[Durability] = Seq(Full, None)
}

/** A key, its default and what its values may be. */
sealed abstract class ConfEntry[T](val key: String, val default: T, expected: String) {
  protected def parse(text: String): Option[T]

  /** @param get the value that is set for a key, if one is */
  def read(get: String => Option[String]): T =
    get(key).fold(default)(text => parse(text.trim).getOrElse(throw Errors.confInvalid(key, text, expected)))
}

/** A whole number from `least` to `most`. */
final class NumberEntry(key: String, default: Long, least: Long, most: Long)
    extends ConfEntry[Long](key, default, s"a whole number from $least to $most") {
  override protected def parse(text: String): Option[Long] =
    text.toLongOption.filter(value => value >= least && value <= most)
}

/** One of a few words, in lower or upper case. */
final class ChoiceEntry[T](key: String, default: T, choices: Seq[(String, T)])
    extends ConfEntry[T](key, default, choices.map(_._1).mkString("one of ", ", ", "")) {
  override protected def parse(text: String): Option[T] =
    choices.collectFirst { case (name, value) if name.equalsIgnoreCase(text) => value }
}
