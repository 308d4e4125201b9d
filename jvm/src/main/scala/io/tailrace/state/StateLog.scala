package io.tailrace.state

import java.io.File

/** Keeps the versions of one partition's state, for other executors and for the next start of the query. */
trait StateLog {

  /** True if a committed version can be read again. */
  def durable: Boolean

  /** The name of the file of a version that a task begins to make. No other task's has it.
    *
    * @param id of the attempt, in Spark's checkpoint format 2
    */
  def newManifest(version: Long, id: Option[String]): String

  /** Keeps a finished local run. @return its entry in a manifest, without sections */
  def upload(local: WrittenFile, name: String): Run

  /** Creates a version. All runs that the manifest names must have been uploaded, or be inline.
    *
    * @param file   from [[newManifest]]
    * @param inline local files of the runs that come into the manifest's file, by the runs' names
    * @return the manifest, which says where its inline runs are
    */
  def commit(file: String, manifest: Manifest, inline: Map[String, WrittenFile]): Manifest

  def hasManifest(version: Long, id: Option[String]): Boolean

  def readManifest(version: Long, id: Option[String]): Manifest

  /** A copy of a version's run to a local file, with every byte checked. The caller begins it.
    *
    * @param local exists
    * @param holds what it has
    */
  def copyOf(run: Run, local: File, version: Long, holds: LocalBytes): RunCopy

  /** Deletes versions older than the newest `versionsToRetain`, but files with runs that retained ones name. */
  def purge(versionsToRetain: Int): Unit
}
