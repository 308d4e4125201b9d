package io.tailrace.state

import org.apache.hadoop.fs.FileStatus

/** The files of one partition's state as far as they are known here: by a listing, and by what was written and
  * deleted here since then. Files of other executors are found by the next listing, a while later.
  *
  * {{{
  *   listing    1.1-a  2.1-b      written 3.1-c  4.1-d      deleted 1.1-a      known: 2.1-b  3.1-c  4.1-d
  * }}}
  */
private[state] final class RecentFiles {
  import RecentFiles._

  private var known = Option.empty[Set[String]]

  // Of these, those that were written here.
  private var own = Set.empty[String]
  private var purges = 0
  private var expiries = 0

  // Listings that go on, and what was written since the first of them began: they may lack it.
  private var listings = 0
  private var writtenMeanwhile = Set.empty[String]

  // The last attempt at each version, as far as it was listed or begun here.
  private var attempts = Map.empty[Long, Int]

  def isListed: Boolean = synchronized(known.isDefined)

  /** @param list lists the directory
    * @return what it has found
    */
  def listing(list: => Seq[FileStatus]): Seq[FileStatus] = {
    val expired = synchronized {
      listings += 1
      expiries
    }
    try {
      val found = list
      listed(found.map(_.getPath.getName).toSet, expired)
      found
    } finally
      synchronized {
        listings -= 1
        if (listings == 0) writtenMeanwhile = Set.empty
      }
  }

  /** @param expired [[expiries]] when the listing began: what was written before a later one, it may lack */
  private def listed(found: Set[String], expired: Int): Unit = synchronized {
    own ++= writtenMeanwhile
    known = Some(found ++ own)
    if (expired == expiries) purges = 0
    for (name <- found; attempt <- StateFileNames.attempt(name); v <- StateFileNames.manifestVersion(name))
      attempts += v -> Math.max(attempt, attempts.getOrElse(v, 0))
  }

  def written(name: String): Unit = synchronized {
    if (known.isDefined) own += name
    known = known.map(_ + name)
    if (listings > 0) writtenMeanwhile += name
  }

  def deleted(names: Seq[String]): Unit = synchronized {
    known = known.map(_ -- names)
    own --= names
  }

  /** The next purge must list. */
  def expire(): Unit = synchronized {
    purges = PurgesOfListing
    expiries += 1
  }

  def names: Set[String] = synchronized(known.getOrElse(Set.empty))

  /** True if a file was written here. */
  def isOwn(name: String): Boolean = synchronized(own(name))

  /** Begins a purge. @return whether the files must be listed first */
  def beginPurge(): Boolean = synchronized {
    purges += 1
    known.isEmpty || purges > PurgesOfListing
  }

  /** @return the number of a new attempt at a version */
  def beginAttempt(version: Long): Int = synchronized {
    val attempt = attempts.getOrElse(version, 0) + 1
    attempts = attempts.filter(_._1 > version) + (version -> attempt)
    attempt
  }
}

private[state] object RecentFiles {

  /** Spark's maintenance purges once a minute, if it isn't set otherwise. */
  private val PurgesOfListing = 32
}
