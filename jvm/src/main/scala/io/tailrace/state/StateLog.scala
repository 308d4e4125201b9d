package io.tailrace.state

import java.io.File

/** Where the versions of one partition's state are kept, so that another executor, or the next start, can have them. */
trait StateLog {

  /** Whether what was committed can be read again. */
  def durable: Boolean

  /** Keeps a finished local run. @return how a manifest names it, without sections */
  def upload(local: File, name: String): Run

  /** Makes a version: all runs that it names must have been uploaded. */
  def writeManifest(manifest: Manifest, id: Option[String]): Unit

  def hasManifest(version: Long, id: Option[String]): Boolean

  def readManifest(version: Long, id: Option[String]): Manifest

  /** Copies a run to a local file, and checks every byte of it on the way. */
  def download(run: Run, local: File, version: Long): Unit

  /** Forgets versions older than the newest `versionsToRetain`, then runs that only those named. */
  def purge(versionsToRetain: Int): Unit
}

/** `spark.tailrace.state.durability = none`: nothing is written, so a commit waits for no disk and no network. Versions
  * that were kept before, by a start with `full`, can still be read.
  */
final class NoStateLog(kept: CheckpointFiles) extends StateLog {
  override val durable = false

  override def upload(local: File, name: String): Run = Run(name, local.length, 0L, Nil)
  override def writeManifest(manifest: Manifest, id: Option[String]): Unit = ()
  override def hasManifest(version: Long, id: Option[String]): Boolean = kept.hasManifest(version, id)
  override def readManifest(version: Long, id: Option[String]): Manifest = kept.readManifest(version, id)
  override def download(run: Run, local: File, version: Long): Unit = kept.download(run, local, version)
  override def purge(versionsToRetain: Int): Unit = kept.purge(versionsToRetain)
}
