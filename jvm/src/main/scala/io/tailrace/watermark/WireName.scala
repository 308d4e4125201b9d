package io.tailrace.watermark

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.HexFormat

/** Encodes names in reports to a watermark server. The server accepts 1 to 200 characters without control
  * characters, and refuses a whole report for one bad name: the name of one host would block all hosts.
  *
  * {{{
  *   ""       %          "a\nb"    a%0Ab
  *   "50%"    50%25      201 h's   183 of them, ~, 16 digits of the SHA-256 of the 201
  * }}}
  */
private[tailrace] object WireName {

  /** The most code points of a name. The server counts code points too. */
  val Longest = 200

  private val Empty = "%"
  private val Kept = 183

  /** True if the server accepts the text as it is. */
  def isName(text: String): Boolean = {
    val points = text.codePoints.toArray
    points.nonEmpty && points.length <= Longest &&
    !points.exists(p => Character.isISOControl(p) || Character.getType(p) == Character.SURROGATE)
  }

  /** Encodes any text. Different texts have different names. */
  def encode(text: String): String =
    if (text.isEmpty) Empty
    else {
      val plain = if (text.chars.anyMatch(c => isEscaped(c))) escape(text) else text
      if (plain.length <= Longest || plain.codePointCount(0, plain.length) <= Longest) plain
      else plain.substring(0, plain.offsetByCodePoints(0, Kept)) + "~" + digest(text)
    }

  /** Decodes a name. The end of a long text is not in its name. */
  def decode(name: String): String =
    if (name == Empty) ""
    else if (!name.contains('%')) name
    else
      try java.net.URLDecoder.decode(name.replace("+", "%2B"), UTF_8)
      // A long name may have been cut within an escape.
      catch { case _: IllegalArgumentException => name }

  /** A part of a path, or of a parameter. */
  def inUrl(text: String): String = java.net.URLEncoder.encode(text, UTF_8).replace("+", "%20")

  /** The first 16 hexadecimal digits of a text's SHA-256. */
  def digest(text: String): String =
    HexFormat.of.formatHex(MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8)), 0, 8)

  private def isEscaped(char: Int): Boolean = char == '%' || Character.isISOControl(char)

  private def escape(text: String): String =
    text.flatMap { c =>
      if (isEscaped(c.toInt)) c.toString.getBytes(UTF_8).map(b => f"%%${b & 0xff}%02X").mkString
      else c.toString
    }
}
