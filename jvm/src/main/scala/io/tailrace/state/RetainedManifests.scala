package io.tailrace.state

/** The files that retained manifests name, as far as they were read or written here: a purge a minute of a
  * hundred retained versions would read each of them a hundred times.
  *
  * A manifest never changes. That of an earlier release without an id is the exception, because another
  * attempt may have replaced it. It is read at each purge, as long as it is retained.
  */
private[state] final class RetainedManifests {
  private var known = Map.empty[String, Array[String]]

  def know(manifest: String, files: Iterable[String]): Unit = synchronized {
    known += manifest -> files.toArray
  }

  /** @param manifests that are retained; older ones are forgotten
    * @param read      the files that a manifest names
    */
  def fileNames(manifests: Set[String])(read: String => Set[String]): Set[String] = {
    // One that was written meanwhile isn't in the listing.
    val oldest = manifests.flatMap(StateFileNames.manifestVersion).minOption
    def isRetained(manifest: String) =
      StateFileNames.manifestVersion(manifest).exists(v => oldest.forall(v >= _))
    synchronized { known = known.filter { case (manifest, _) => isRetained(manifest) } }
    manifests.flatMap { name =>
      synchronized(known.get(name)).fold {
        val files = read(name)
        if (!StateFileNames.isReplaceable(name)) know(name, files)
        files
      }(_.toSet)
    }
  }
}
