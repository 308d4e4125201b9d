package io.tailrace.checkpoint

import java.nio.charset.StandardCharsets.UTF_8

import io.tailrace.common.Errors

/** Files of three lines: magic, format and perhaps a place; a body, of one line; the CRC-32C of the two lines above.
  *
  * @param kind     what such a file is, for errors: "it doesn't begin as KIND does"
  * @param hasPlace whether files of a format say what they are of
  */
final class ChecksummedText(
    magic: String,
    oldest: Int,
    newest: Int,
    kind: String,
    hasPlace: Int => Boolean = _ => true
) {

  /** @param place what the file is of; empty: nothing */
  def encode(body: String, place: String = ""): Array[Byte] = {
    val text = s"$magic $newest${if (place.isEmpty) "" else s" $place"}\n$body\n"
    s"$text${Checksum.hex(text)}\n".getBytes(UTF_8)
  }

  /** @param file  what to call it in an error
    * @param place what it has to be of
    * @return the body
    */
  def decode(bytes: Array[Byte], file: String, place: String = ""): String = {
    val lines = new String(bytes, UTF_8).split('\n')
    val head = lines.headOption.getOrElse("").split(' ')
    if (head.length < 2 || head(0) != magic || head(1).toIntOption.isEmpty)
      throw Errors.stateFileCorrupt(file, s"it doesn't begin as $kind does")
    if (head(1).toInt > newest || head(1).toInt < oldest)
      throw Errors.stateFormatUnsupported(file, head(1).toInt, oldest, newest)
    if (lines.length != 3 || lines(2) != Checksum.hex(s"${lines(0)}\n${lines(1)}\n"))
      throw Errors.stateFileCorrupt(file, "its checksum doesn't fit its content")
    val found = head.drop(2).mkString(" ")
    if (hasPlace(head(1).toInt) && found != place)
      throw Errors.stateFileCorrupt(file, s"it belongs to '$found', not to '$place'")
    lines(1)
  }
}
