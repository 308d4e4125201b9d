package io.tailrace.sync

import java.io.DataOutputStream
import java.nio.ByteBuffer

import io.tailrace.checkpoint.CheckedBytes

/** The progress of a synced join after a batch. Its bytes are format 3, big-endian, see
  * `jvm/docs/formats.md`:
  *
  * {{{
  *   "TRSP"(4) format(4) place(4 + n) release(8) left low(8)
  *   left, then right: low(8) partitions(4), each: name(4 + n) latest(8) silent ms(8) flags(1) filtered ms(8)
  *   CRC-32C of all before(4)
  * }}}
  *
  * Format 2 has no filtered ms; format 1 has no place either. In format 1 a name may be that of several
  * partitions (it is their values joined by `-`), and silence is -1 if the batch had rows of the partition.
  *
  * @param times the times that the next batch is judged by
  */
private[tailrace] final case class SyncFile(times: SyncTimes, left: SideState, right: SideState) {
  def side(side: SyncSide): SideState = side match {
    case SyncSide.Left => left
    case SyncSide.Right => right
  }
}

/** @param low all partitions that count have been read up to this time, in microseconds */
private[sync] final case class SideState(low: Long, partitions: Seq[PartitionState])

private[tailrace] object SyncFile {
  private val Layout =
    new CheckedBytes(0x54525350, "the progress of a synced join", oldest = 1, newest = 3, placedSince = 2)
  private val Excluded = 1
  private val Former = 2

  /** @param place join and batch that it is of */
  def encode(file: SyncFile, place: String): Array[Byte] = Layout.encode(place) { out =>
    out.writeLong(file.times.release)
    out.writeLong(file.times.leftLow)
    Seq(file.left, file.right).foreach(writeSide(out, _))
  }

  private def writeSide(out: DataOutputStream, side: SideState): Unit = {
    out.writeLong(side.low)
    out.writeInt(side.partitions.size)
    side.partitions.foreach { p =>
      CheckedBytes.writeText(out, p.name)
      out.writeLong(p.latest)
      out.writeLong(p.silentMs)
      out.writeByte((if (p.excluded) Excluded else 0) | (if (p.isFormer) Former else 0))
      out.writeLong(p.filteredMs)
    }
  }

  /** @param name  of the file, for errors
    * @param place join and batch that it must be of
    * @throws io.tailrace.common.TailraceStateException TAILRACE_STATE_FILE_CORRUPT or ..._FORMAT_UNSUPPORTED
    */
  def decode(bytes: Array[Byte], name: String, place: String): SyncFile =
    Layout.decode(bytes, name, place) { (format, in) =>
      SyncFile(SyncTimes(in.getLong(), in.getLong()), readSide(format, in), readSide(format, in))
    }

  private def readSide(format: Int, in: ByteBuffer): SideState =
    SideState(in.getLong(), Seq.fill(CheckedBytes.readCount(in))(readPartition(format, in)))

  private def readPartition(format: Int, in: ByteBuffer): PartitionState = {
    val name = CheckedBytes.readText(in)
    val (latest, silentMs, flags) = (in.getLong(), in.getLong(), in.get())
    PartitionState(
      name,
      latest,
      Math.max(0L, silentMs),
      (flags & Excluded) != 0,
      format == 1 || (flags & Former) != 0,
      if (format < 3) 0L else Math.max(0L, in.getLong())
    )
  }
}
