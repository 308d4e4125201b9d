package io.tailrace.state

import org.apache.hadoop.fs.{FileStatus, Path}
import org.scalatest.funsuite.AnyFunSuite

/** What is known of a partition's files, by listings and by what is written beside them. */
final class RecentFilesSuite extends AnyFunSuite {
  private def files(names: String*): Seq[FileStatus] =
    names.map(name => new FileStatus(1, false, 1, 1, 1, new Path(s"/state/$name")))

  test("another executor that writes during a listing is noticed: the next purge lists again") {
    val recent = new RecentFiles
    recent.listing(files("1_a.manifest"))
    assert(!recent.beginPurge())
    recent.listing {
      recent.expire()
      files("1_a.manifest")
    }
    assert(recent.beginPurge())
  }

  test("a listing that lacks a file that was written here doesn't forget it") {
    val recent = new RecentFiles
    recent.listing(files("1_a.manifest"))
    recent.written("2_b.manifest")
    recent.listing(files("1_a.manifest"))
    assert(recent.names == Set("1_a.manifest", "2_b.manifest") && recent.isOwn("2_b.manifest"))
    recent.deleted(Seq("2_b.manifest"))
    recent.listing(files("1_a.manifest"))
    assert(recent.names == Set("1_a.manifest"))
  }
}
