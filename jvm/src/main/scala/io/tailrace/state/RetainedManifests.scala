package io.tailrace.state

/** The files that retained manifests name, as far as they were read or written here: a purge a minute of a
  * hundred retained versions would read each of them a hundred times.
  *
  * A manifest never changes, but that of an earlier release without an id: another attempt of that release
  * may replace it. Then its file has another time, if the file system's clock has gone on since it was read:
  *
  * {{{
  *   7.manifest, of 12:00:07, in a listing whose newest file is of 12:00:09   is read at the next purge too
  *   7.manifest, of 12:00:07, in a listing whose newest file is of 12:01:00   is known: a later one isn't of 12:00:07
  * }}}
  */
private[state] final class RetainedManifests {
  import RetainedManifests._

  private var known = Map.empty[String, Known]

  /** @param stamp of the file that was read; none if it can't change */
  def know(manifest: String, stamp: Option[Stamp], files: Iterable[String]): Unit = synchronized {
    known += manifest -> Known(stamp, files.toArray)
  }

  /** @param manifests that are retained, with the stamps of a listing; older ones are forgotten
    * @param read      the files that a manifest names
    */
  def fileNames(manifests: Map[String, Option[Stamp]])(read: String => Set[String]): Set[String] = {
    val newestMs = manifests.values.flatten.map(_.modifiedMs).maxOption.getOrElse(0L)
    // One that was written meanwhile isn't in the listing.
    val oldest = manifests.keys.flatMap(StateFileNames.manifestVersion).minOption
    def isRetained(manifest: String) =
      StateFileNames.manifestVersion(manifest).exists(v => oldest.forall(v >= _))
    synchronized { known = known.filter { case (manifest, _) => isRetained(manifest) } }
    manifests.iterator.flatMap { case (name, stamp) =>
      def readNow(): Array[String] = {
        val files = read(name)
        if (!StateFileNames.isReplaceable(name)) know(name, None, files)
        else if (stamp.exists(newestMs - _.modifiedMs >= Settled)) know(name, stamp, files)
        files.toArray
      }
      synchronized(known.get(name))
        .filter(known => known.stamp.isEmpty || known.stamp == stamp)
        .fold(readNow())(_.files)
    }.toSet
  }
}

private[state] object RetainedManifests {

  /** In milliseconds. File systems have times in whole seconds, some in two. */
  private val Settled = 10000L

  final case class Stamp(length: Long, modifiedMs: Long)

  private final case class Known(stamp: Option[Stamp], files: Array[String])
}
