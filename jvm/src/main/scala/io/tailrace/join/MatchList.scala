package io.tailrace.join

import java.util.Arrays

import io.tailrace.state.RowBuffer

/** The matches of a chunk of left rows: per left row a linked list through plain arrays of row numbers in `values`. A
  * right row that matches several left rows is held once.
  */
final class MatchList(values: RowBuffer) {
  private var heads = new Array[Int](0)
  private var counts = new Array[Int](0)
  private var matches = new Array[Int](1024)
  private var nexts = new Array[Int](1024)
  private var used = 0
  private var sorted = new Array[Int](16)

  /** Forgets all and makes room for `rows` left rows. */
  def reset(rows: Int): Unit = {
    if (heads.length < rows) {
      heads = new Array[Int](rows + rows / 2)
      counts = new Array[Int](heads.length)
    }
    Arrays.fill(heads, 0, rows, -1)
    Arrays.fill(counts, 0, rows, 0)
    used = 0
  }

  def add(left: Int, right: Int): Unit = {
    if (used == matches.length) {
      matches = Arrays.copyOf(matches, used * 2)
      nexts = Arrays.copyOf(nexts, used * 2)
    }
    matches(used) = right
    nexts(used) = heads(left)
    heads(left) = used
    counts(left) += 1
    used += 1
  }

  def count(left: Int): Int = counts(left)

  /** Row numbers of the left row's matches by time, then by content; valid until the next call. */
  def ordered(left: Int): Array[Int] = {
    val n = counts(left)
    if (sorted.length < n) sorted = new Array[Int](n * 2)
    var at = heads(left)
    var i = n - 1
    while (at >= 0) {
      sorted(i) = matches(at)
      at = nexts(at)
      i -= 1
    }
    sort(n)
    sorted
  }

  /** Groups are small and come nearly sorted (each run gives its matches by time): insertion sort, or a library's. */
  private def sort(n: Int): Unit =
    if (n <= 32) {
      var i = 1
      while (i < n) {
        val row = sorted(i)
        var j = i - 1
        while (j >= 0 && compare(sorted(j), row) > 0) {
          sorted(j + 1) = sorted(j)
          j -= 1
        }
        sorted(j + 1) = row
        i += 1
      }
    } else {
      val boxed = Array.tabulate[Integer](n)(i => sorted(i))
      Arrays.sort(boxed, (a: Integer, b: Integer) => compare(a, b))
      var i = 0
      while (i < n) {
        sorted(i) = boxed(i)
        i += 1
      }
    }

  private def compare(a: Int, b: Int): Int = {
    val byTime = java.lang.Long.compare(values.time(a), values.time(b))
    if (byTime != 0) byTime else values.compareValues(a, b)
  }
}
