package io.tailrace.replay

import scala.collection.mutable

/** Names of the places that origins are read from, each a partition of a topic, by small numbers: a table of marks has few of
  * them and many origins.
  */
private[replay] final class Homes {
  private val names = mutable.ArrayBuffer.empty[String]
  private val numbers = mutable.HashMap.empty[String, Int]

  def size: Int = names.size

  /** @param home of an entry; a negative one is unknown */
  def name(home: Int): Option[String] = Option.when(home >= 0)(names(home))

  /** @return -1 if there is none of this name */
  def find(name: String): Int = numbers.getOrElse(name, Homes.Unknown)

  /** @return the number of this name, which is a new one if it had none */
  def of(name: String): Int = numbers.getOrElseUpdate(
    name, {
      names += name
      names.size - 1
    }
  )

  def copy(): Homes = {
    val same = new Homes
    names.foreach(same.of)
    same
  }
}

private[replay] object Homes {

  /** Of a mark that was written when homes weren't. */
  val Unknown: Int = -1
}
