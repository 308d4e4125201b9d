package io.tailrace.state

import java.io.{File, IOException}
import java.util.UUID
import java.util.concurrent.atomic.AtomicLong
import java.util.concurrent.{Future, RejectedExecutionException, TimeUnit}

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.tailrace._
import org.apache.spark.sql.types.StructType

import io.tailrace.common.{Durability, Errors, ProcessPart, TailraceConf}

/** The state of one partition of an operator on one executor. It loads versions and hands out stores. The
  * newest version's runs stay as local files, so that the next batch reads nothing from the checkpoint. A
  * version with many bytes is handed out while its runs are still being copied: a batch that reads none of
  * them doesn't wait.
  *
  * Several stores may be open at a time: a killed task may still run when its successor starts. Each works on
  * its own base version, and writes its own files. The manifest of the last attempt at a version counts, as a
  * whole. Either is right, because both come from the same input.
  *
  * @param id       as Spark knows it
  * @param location of its files in the checkpoint
  * @param shapes   of the operator's rows, in this run of the query
  */
private[state] final class OwnStore(
    override val id: StateStoreId,
    location: Path,
    conf: StateStoreConf,
    hadoopConf: Configuration,
    override val shapes: RowShapes = RowShapes.AsWritten
) extends StateOwner
    with Logging {
  private var newest = OwnStore.emptyAt(0)
  // With durability none, this is the only copy of the version that a repeated batch begins with.
  private var previous = OwnStore.emptyAt(0)
  private var closed = false

  private def setting(key: String): Option[String] = Option(hadoopConf.get(key))

  override val stateLog: StateLog = {
    val files = new CheckpointFiles(location, hadoopConf)
    TailraceConf.StateDurability.read(setting) match {
      case Durability.Full => files
      case Durability.None => new NoStateLog(files)
    }
  }

  private val local =
    LocalDirectory.of(s"${id.operatorId}-${id.partitionId}", location, setting, stateLog.durable)

  /** Without ids, a zombie's manifest may count instead of its successor's. It names runs of the version before,
    * which the other task may have compacted: these must not be purged while the zombie's version is needed.
    */
  private val versionsToRetain =
    if (conf.enableStateStoreCheckpointIds) conf.minVersionsToRetain
    else Math.max(2, conf.minVersionsToRetain)

  override val inlineRunBytes: Long = TailraceConf.InlineRunBytes.read(setting)

  private val backgroundLoadBytes = TailraceConf.BackgroundLoadBytes.read(setting)

  private val compactor = new Compactor(
    TailraceConf.CompactionRuns.read(setting).toInt,
    versionsToRetain,
    stateLog,
    shapes,
    isIn,
    name => localRun(name, localFile(name), contentOfNewRuns)
  )

  private val replacedCopies = new AtomicLong

  override def takeReplacedCopies(): Long = replacedCopies.getAndSet(0)

  override def contentOfNewRuns: LocalContent =
    if (stateLog.durable) LocalContent.Added else LocalContent.OnlyCopy

  override def localRun(
      name: String,
      file: File,
      content: LocalContent,
      comingFrom: Option[RunCopy]
  ): LocalRun =
    new LocalRun(
      name,
      file,
      comingFrom,
      content = content,
      onReplaced = () => replacedCopies.incrementAndGet(): Unit
    )

  override def upload(run: LocalRun, written: WrittenFile): Future[Run] = {
    run.acquire()
    try
      OwnStore.uploads.here.submit { () =>
        try {
          val uploaded = stateLog.upload(written, run.name)
          isIn(run, uploaded)
          uploaded
        } finally run.release()
      }
    catch {
      case e: RejectedExecutionException =>
        run.release()
        throw e
    }
  }

  /** Says that a run which was written here is in the checkpoint. */
  private def isIn(local: LocalRun, run: Run): Unit = if (stateLog.durable)
    local.isIn(stateLog.copyOf(run, local.file, local.version.getOrElse(0L), LocalBytes.Whole))

  override def localFile(name: String): File = local.file(name)

  override def newCheckpointId(): Option[String] =
    if (conf.enableStateStoreCheckpointIds) Some(UUID.randomUUID.toString) else None

  /** @param empty whether to begin at `version` without rows, whatever the checkpoint has */
  def store(version: Long, checkpointId: Option[String], empty: Boolean): TailraceStateStore = {
    val before = synchronized(newest)
    val begun = System.nanoTime
    val (base, found) =
      if (empty || version == 0) (OwnStore.emptyAt(version), StateLoad.None)
      else heldHere(version, checkpointId).fold(read(version, checkpointId))((_, StateLoad.None))
    val hasWaited = complete(base) || (found ne StateLoad.None)
    def millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime - begun)
    val load = if (hasWaited) found.copy(millis = millis) else found
    synchronized {
      if (closed) base.release()
      require(!closed, s"the store $id is closed")
      val store = new TailraceStateStore(this, base, checkpointId, compactor.adopt(base), load)
      // A task that was given up may come late: what its successor has committed meanwhile stays.
      val isOvertaken = (newest ne before) && newest.manifest.version > base.manifest.version
      if ((base eq newest) || isOvertaken) base.release() else install(base)
      store
    }
  }

  /** @return the version, acquired, if it is known here */
  private def heldHere(version: Long, checkpointId: Option[String]): Option[LoadedState] = synchronized {
    require(!closed, s"the store $id is closed")
    val found = Seq(newest, previous).find { state =>
      state.manifest.version == version && checkpointId.forall(state.checkpointId.contains)
    }
    found.foreach(_.acquire())
    found
  }

  /** Runs that could not be copied in the background are copied now: an error must not wait until a later
    * batch needs them.
    *
    * @return whether there were any
    */
  private def complete(state: LoadedState): Boolean =
    try {
      val failed = state.runs.filter(_.hasFailed)
      failed.map(_.hurry()).foreach(RunCopy.await)
      failed.nonEmpty
    } catch {
      case e: Throwable =>
        state.release()
        throw e
    }

  /** @return the version, acquired */
  private def read(version: Long, checkpointId: Option[String]): (LoadedState, StateLoad) =
    if (stateLog.durable || stateLog.hasManifest(version, checkpointId)) load(version, checkpointId)
    else {
      logWarning(
        s"TAILRACE_STATE_LOST: $id begins empty at version $version, because " +
          s"${TailraceConf.StateDurability.key} is ${Durability.None.name} and no other copy of it " +
          "exists: rows that waited in it will not come out"
      )
      (OwnStore.emptyAt(version, checkpointId), StateLoad(lostVersions = version))
    }

  /** Reads a version from the checkpoint: its manifest, and its runs too if they are small. Without the lock:
    * it may take long, and a task that has been given up must not hold up its successor, which may be able to
    * begin at once.
    */
  private def load(version: Long, checkpointId: Option[String]): (LoadedState, StateLoad) = {
    val manifest = stateLog.readManifest(version, checkpointId)
    val here = synchronized { newest.acquire(); newest }
    val runs = new ArrayBuffer[LocalRun]
    val missing = new ArrayBuffer[LocalRun]
    // Of earlier owners: only to be checked.
    var leftBytes = 0L
    def bytes = missing.map(_.length).sum
    try {
      val present = here.runs.map(run => run.name -> run).toMap
      manifest.runs.foreach { run =>
        val local = present.getOrElse(run.name, coming(run, version))
        local.acquire()
        runs += local
        if (!present.contains(run.name)) {
          missing += local
          if (local.isUnchecked) leftBytes += run.length
        }
      }
      if (bytes <= backgroundLoadBytes) missing.map(_.hurry()).foreach(RunCopy.await)
      // Small runs are soon here, and their readers don't wait for large ones.
      else missing.sortBy(_.length).foreach(_.begin())
    } catch {
      case e: Throwable =>
        runs.foreach(_.release())
        // An interrupted task must end at once.
        if (!e.isInstanceOf[InterruptedException])
          try missing.foreach(_.awaitDeletion())
          catch { case _: InterruptedException => Thread.currentThread.interrupt() }
        throw e
    } finally here.release()
    logInfo(
      s"Loaded version $version of $id: ${runs.size} runs, of which ${missing.size} were not here, " +
        s"$bytes bytes; $leftBytes of them were left by an earlier process"
    )
    (
      new LoadedState(manifest, runs.toSeq, checkpointId, shapes = shapes),
      StateLoad(bytes = bytes - leftBytes)
    )
  }

  private def coming(run: Run, version: Long): LocalRun = {
    val left = local.take(run)
    val file = left.getOrElse(newFile(run.name))
    val holds = if (left.isEmpty) LocalBytes.None else LocalBytes.Unchecked
    localRun(run.name, file, contentOfNewRuns, Some(stateLog.copyOf(run, file, version, holds)))
  }

  /** An empty local file. Another attempt may still use a file of the run's name. */
  private def newFile(name: String): File =
    try Seq(localFile(name), localFile(s"${UUID.randomUUID}.run")).find(_.createNewFile()).get
    catch {
      case e: IOException => throw Errors.stateFileUnavailable(localFile(name).getPath, "written", e)
    }

  override def committed(next: LoadedState): Unit = {
    next.runs.zip(next.manifest.runs).foreach { case (local, run) => isIn(local, run) }
    synchronized {
      // A late commit of a task that was replaced must not replace a newer version of its successor.
      if (!closed && next.manifest.version >= newest.manifest.version) {
        next.acquire()
        install(next)
        compactor.committed(next)
        compactor.submit(next)
        local.forgetBefore()
      }
    }
    if (conf.commitValidationEnabled) SparkState.reportCommit(next.manifest.version, id, hadoopConf)
  }

  /** @param next is acquired: it stays in use as long as it is the newest */
  private def install(next: LoadedState): Unit = {
    if (stateLog.durable) newest.release()
    else {
      previous.release()
      previous = newest
    }
    newest = next
  }

  /** Purges old versions, and compacts. The newest version may be of a batch that fails before Spark commits
    * it: then the version before is needed. So the newest one doesn't count among those that Spark retains.
    */
  def maintain(): Unit = {
    stateLog.purge(versionsToRetain + 1)
    synchronized(if (!closed) compactor.submit(newest))
    local.maintain()
  }

  def close(): Unit = synchronized {
    closed = true
    compactor.close()
    if (local.outlivesOwner) newest.runs.foreach(_.leave())
    install(OwnStore.emptyAt(0))
    install(OwnStore.emptyAt(0))
    local.close()
  }
}

private[state] object OwnStore {

  /** A thread for each upload, because uploads mostly wait for disks and networks. */
  private val uploads = new ProcessPart("uploads")(SparkState.threads("tailrace-upload"))

  def emptyAt(version: Long, checkpointId: Option[String] = None): LoadedState =
    new LoadedState(Manifest.empty.copy(version = version), Nil, checkpointId)
}

/** The state store provider of Tailrace's operators. They name it in the settings that they hand to Spark's
  * registry of stores. The session's provider is for Spark's operators (`adr/012`).
  *
  * {{{
  *   StoredJoinExec     ── conf(session's) ──> StateStore.get ──> OwnStoreProvider ──> OwnStore
  *   Spark's operators  ── session's conf ───> StateStore.get ──> HDFS's or RocksDB's provider
  * }}}
  */
final class OwnStoreProvider extends WholeStateProvider[TailraceStateStore] {
  private var store: Option[OwnStore] = None

  override protected def open(
      id: StateStoreId,
      keys: StructType,
      conf: StateStoreConf,
      hadoopConf: Configuration
  ): Unit = {
    require(BufferedRows.isKeySchema(keys), s"$id is not a store of Tailrace's: $keys")
    def setting(key: String) = Option(hadoopConf.get(key))
    BlockCache.ofExecutor.ask(TailraceConf.BlockCacheBytes.read(setting))
    LocalDisk.ofExecutor.configure(TailraceConf.LocalRunBytes.read(setting))
    val (located, settings, shapes) = conf match {
      case own: OwnStoreConf => (id.copy(storeName = own.store), hadoopConf, own.shapes)
      // A reader beside the query: it must not take the files that the query's next owner needs.
      case _ => (id, withoutLocalDirectory(hadoopConf), RowShapes.AsWritten)
    }
    val location = located.storeCheckpointLocation()
    store = Some(new OwnStore(id, location, conf, settings, shapes))
  }

  private def withoutLocalDirectory(conf: Configuration): Configuration =
    if (conf.get(TailraceConf.LocalDirectory.key) == null) conf
    else {
      val copy = new Configuration(conf)
      copy.unset(TailraceConf.LocalDirectory.key)
      copy
    }

  override def load(
      version: Long,
      checkpointId: Option[String],
      empty: Boolean
  ): TailraceStateStore =
    store
      .getOrElse(throw new IllegalStateException("the provider was not initialised"))
      .store(version, checkpointId, empty)

  override def maintain(): Unit = store.foreach(_.maintain())

  override def close(): Unit = store.foreach(_.close())
}

/** The session's settings, with Tailrace's provider. Each batch needs them, and to clone a session's conf costs
  * more than this.
  *
  * @param store  see [[StateLayout]]. Spark and its readers know each store of ours by the first name
  * @param shapes of the operator's rows
  */
final class OwnStoreConf(session: SQLConf, val store: String, val shapes: RowShapes)
    extends SparkStoreConf(session) {
  override val providerClass: String = classOf[OwnStoreProvider].getName
}

/** Spark's RocksDB provider under the name that checkpoints from before version 0.1 have in their offset log.
  * Spark's operators kept their state in it. Without the class, Spark's state reader could not open them.
  */
final class TailraceStateStoreProvider extends SparkRocksDBProvider
