package io.tailrace.plan

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.{ISO_8859_1, UTF_8}
import java.nio.file.{Files, Path}
import java.util.Arrays

import scala.util.Random

import io.tailrace.checkpoint.Checksum
import io.tailrace.testkit.{FileKind, TempDirectory}

/** One damage to one file, or to a directory.
  *
  * @param kind  of the file
  * @param file  below the root of checkpoint and folder
  * @param harm  the column of the table in formats.md that says what happens; none for a directory
  * @param bytes of the damaged file; none if it is deleted
  */
private[plan] final case class Damage(
    name: String,
    kind: FileKind,
    file: Path,
    harm: Option[FileKind.Harm],
    bytes: Option[Array[Byte]]
) {

  def apply(root: Path): Unit = {
    val victim = root.resolve(file)
    bytes match {
      case Some(changed) => Files.write(victim, changed)
      case None => TempDirectory.delete(victim)
    }
    ()
  }

  /** The table's entry for it. */
  def fate: Option[FileKind.Fate] = harm.map(kind.fates)

  override def toString: String = s"$file, $name"
}

private[plan] object Damages {
  import FileKind._

  def directory(kind: FileKind, directory: Path): Damage =
    Damage("a directory that is gone", kind, directory, None, None)

  def gone(kind: FileKind, file: Path): Damage = Damage("gone", kind, file, Some(Gone), None)

  /** The bytes of a file, changed in every way. */
  def changed(kind: FileKind, file: Path, bytes: Array[Byte], random: Random): Seq[Damage] = {
    def of(name: String, changed: Array[Byte]) = Damage(name, kind, file, Some(Changed), Some(changed))
    def flipped(at: Int): Array[Byte] = {
      val copy = bytes.clone
      copy(at) = (copy(at) ^ (1 << random.nextInt(8))).toByte
      copy
    }
    val cuts = Seq(0, bytes.length / 2, bytes.length - 1).filter(_ >= 0).distinct.map { length =>
      of(s"cut to $length of ${bytes.length} bytes", Arrays.copyOf(bytes, length))
    }
    val flips =
      if (bytes.isEmpty) Nil
      else
        (Seq(0, bytes.length / 2, bytes.length - 1) ++ Seq.fill(3)(random.nextInt(bytes.length))).map { at =>
          of(s"byte $at flipped", flipped(at))
        }
    val others =
      Seq("null", "{}", "[]", "7", "\"text\"", """{"format":1}""", "v1\n{}", "one\ntwo\nthree\n").map {
        text => of(s"holds $text".replace('\n', ' '), text.getBytes(UTF_8))
      }
    val longer = of("a byte more", bytes :+ 0.toByte)
    val future = Some(later(bytes)).filterNot(Arrays.equals(_, bytes)).map(of("of a format of the future", _))
    // Spark's files have no checksums: Spark can't see that a digit has changed.
    val all = if (kind.isOurs) (cuts ++ flips ++ others ++ future) :+ longer else cuts ++ others
    val byLength = kind.fates(Changed) == StopsByLength
    all.filterNot(d => Arrays.equals(d.bytes.get, bytes) || byLength && d.bytes.get.length == bytes.length)
  }

  /** A format that a later release may write. */
  val Later = 99

  private val Text = """(?s)(tailrace-[a-z-]+) \d+([^\n]*\n[^\n]*\n)[0-9a-f]{8}\n(.*)""".r
  private val Json = """(?s)(.*"format":)\d+(.*)""".r

  /** The bytes of a file in that format, with the right checksum. A file without a format keeps its bytes. */
  def later(bytes: Array[Byte]): Array[Byte] =
    if (bytes.startsWith("TR".getBytes)) {
      val changed = ByteBuffer.wrap(bytes.clone).putInt(4, Later)
      changed.putInt(bytes.length - 4, Checksum.of(changed.array, bytes.length - 4)).array
    } else
      new String(bytes, ISO_8859_1) match {
        case Text(magic, rest, behind) =>
          val text = s"$magic $Later$rest"
          s"$text${Checksum.hex(text)}\n$behind".getBytes(ISO_8859_1)
        case Json(before, after) => s"$before$Later$after".getBytes(ISO_8859_1)
        case _ => bytes
      }

  /** The bytes of another file of the kind. */
  def anothers(
      kind: FileKind,
      file: Path,
      bytes: Array[Byte],
      others: Seq[(Path, Array[Byte])]
  ): Seq[Damage] =
    others.collect {
      case (other, content) if !Arrays.equals(content, bytes) =>
        Damage(s"with the bytes of $other", kind, file, Some(Anothers), Some(content))
    }
}
