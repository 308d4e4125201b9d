package io.tailrace.state

import java.io.File
import java.util.UUID
import java.util.concurrent.{ExecutorService, Executors, Future, RejectedExecutionException}

import scala.collection.mutable.ArrayBuffer

import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreId}
import org.apache.spark.sql.tailrace.SparkState

import io.tailrace.common.TailraceConf

/** The state of one partition of a Tailrace operator on one executor: loads versions, hands out stores, keeps the newest
  * version's runs as local files, so that the next batch reads nothing from the checkpoint.
  *
  * Any number of stores may be open at a time (a killed task may still run when its successor starts). Each works on its
  * own base version and writes files of its own; the last manifest of a version wins whole, and either is right, for
  * both come from the same input.
  */
private[state] final class OwnStore(val id: StateStoreId, conf: StateStoreConf, hadoopConf: Configuration)
    extends Logging {
  private val localDirectory = SparkState.localDirectory(s"tailrace-${id.operatorId}-${id.partitionId}")
  private var newest = OwnStore.emptyAt(0)
  private var closed = false

  val files = new CheckpointFiles(id.storeCheckpointLocation(), hadoopConf)

  private val compactor = new Compactor(
    TailraceConf.CompactionRuns.read(key => Option(hadoopConf.get(key))).toInt,
    conf.minVersionsToRetain,
    files,
    name => new LocalRun(name, localFile(name))
  )

  /** Begins to copy a run into the checkpoint: a task has other things to do than to wait for a disk. The run is not
    * released before the copy has ended, whatever becomes of the task.
    */
  def upload(run: LocalRun): Future[Run] = {
    run.acquire()
    try
      OwnStore.uploads.submit { () =>
        try files.upload(run.file, run.name)
        finally run.release()
      }
    catch {
      case e: RejectedExecutionException =>
        run.release()
        throw e
    }
  }

  def localFile(name: String): File = new File(localDirectory, name)

  /** With Spark's checkpoint format 2 every attempt's version has an id of its own. */
  def newCheckpointId(): Option[String] =
    if (conf.enableStateStoreCheckpointIds) Some(UUID.randomUUID.toString) else None

  /** @param empty begin at `version` with no rows, whatever the checkpoint holds */
  def store(version: Long, checkpointId: Option[String], empty: Boolean): TailraceStateStore = synchronized {
    require(!closed, s"the store $id is closed")
    if (empty) install(OwnStore.emptyAt(version))
    else if (
      newest.manifest.version != version || (checkpointId.isDefined && newest.checkpointId != checkpointId)
    ) {
      install(if (version == 0) OwnStore.emptyAt(0) else load(version, checkpointId))
    }
    new TailraceStateStore(this, newest, checkpointId, compactor.adopt(newest))
  }

  /** @return the version, acquired */
  private def load(version: Long, checkpointId: Option[String]): LoadedState = {
    val manifest = files.readManifest(version, checkpointId)
    val present = newest.runs.map(r => r.name -> r).toMap
    val runs = new ArrayBuffer[LocalRun]
    try
      manifest.runs.foreach { run =>
        val local = present.getOrElse(run.name, download(run, version))
        local.acquire()
        runs += local
      }
    catch {
      case e: Throwable =>
        runs.foreach(_.release())
        throw e
    }
    logInfo(s"Loaded version $version of $id: ${runs.size} runs, ${manifest.runs.map(_.length).sum} bytes")
    new LoadedState(manifest, runs.toSeq, checkpointId)
  }

  private def download(run: Run, version: Long): LocalRun = {
    val file = localFile(run.name)
    // Another attempt may still hold a file of this name, with the same content: never write over it.
    val target = if (file.exists) localFile(s"${UUID.randomUUID}.run") else file
    try files.download(run, target, version)
    catch {
      case e: Throwable =>
        target.delete()
        throw e
    }
    new LocalRun(run.name, target)
  }

  def committed(next: LoadedState): Unit = {
    synchronized {
      // A late commit of a task that was replaced must not push out what its successor has made since.
      if (!closed && next.manifest.version >= newest.manifest.version) {
        next.acquire()
        install(next)
        compactor.committed(next)
        compactor.submit(next)
      }
    }
    if (conf.commitValidationEnabled) SparkState.reportCommit(next.manifest.version, id, hadoopConf)
  }

  /** @param next acquired: it stays in use as long as it is the newest */
  private def install(next: LoadedState): Unit = {
    newest.release()
    newest = next
  }

  def maintain(): Unit = files.purge(conf.minVersionsToRetain)

  def close(): Unit = synchronized {
    closed = true
    compactor.close()
    install(OwnStore.emptyAt(0))
    // Fails while a task still uses a run: then Spark removes the directory when the JVM ends.
    if (localDirectory.list.isEmpty) localDirectory.delete()
  }
}

private[state] object OwnStore {

  /** One thread per task that commits: they wait for disks and networks, and end when nothing is left to copy. */
  private lazy val uploads: ExecutorService = Executors.newCachedThreadPool { (work: Runnable) =>
    val thread = new Thread(work, "tailrace-upload")
    thread.setDaemon(true)
    thread
  }

  def emptyAt(version: Long): LoadedState = new LoadedState(Manifest.empty.copy(version = version), Nil, None)
}
