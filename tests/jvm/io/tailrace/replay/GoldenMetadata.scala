package io.tailrace.replay

import java.nio.file.{Files, Paths}
import java.util.HexFormat

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** `tests/golden/record-metadata.json`, which the Python tests read too; made by neither. */
object GoldenMetadata {

  /** @param bytes  of the older form, without a tag
    * @param tagged what is written; none: such an offset isn't
    */
  final case class Record(
      pid: Long,
      partition: Int,
      offset: Long,
      bytes: Array[Byte],
      tagged: Option[Array[Byte]]
  )
  final case class Producer(parts: Seq[String], pid: Long)

  private lazy val root: JsonNode =
    new ObjectMapper().readTree(Files.readAllBytes(Paths.get("tests/golden/record-metadata.json")))

  private def each(name: String): Seq[JsonNode] = {
    val found = root.get(name).elements.asScala.toSeq
    require(found.nonEmpty, name)
    found
  }

  private def bytes(hex: String): Array[Byte] = HexFormat.of.parseHex(hex)

  lazy val records: Seq[Record] = each("records").map { node =>
    Record(
      node.get("pid").asLong,
      node.get("partition").asInt,
      node.get("offset").asLong,
      bytes(node.get("hex").asText),
      Option(node.get("tagged")).filterNot(_.isNull).map(found => bytes(found.asText))
    )
  }

  lazy val invalid: Seq[Array[Byte]] = each("invalid").map(node => bytes(node.asText))

  lazy val producers: Seq[Producer] = each("producers").map { node =>
    Producer(
      Seq("query", "stream", "brokers", "path", "epoch").map(node.get(_).asText),
      node.get("pid").asLong
    )
  }
}
