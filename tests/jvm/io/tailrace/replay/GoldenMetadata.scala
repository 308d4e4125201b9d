package io.tailrace.replay

import java.nio.file.{Files, Paths}
import java.util.HexFormat

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** `tests/golden/record-metadata.json`, which the Python tests read too; made by neither. */
object GoldenMetadata {

  /** @param bytes  without a tag
    * @param tagged what is written; none: such an offset isn't
    * @param sqe    what is written for SQE; none as well
    */
  final case class Record(
      pid: Long,
      partition: Int,
      offset: Long,
      bytes: Array[Byte],
      tagged: Option[Array[Byte]],
      sqe: Option[Array[Byte]]
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

  private def written(node: JsonNode): Option[Array[Byte]] =
    Option(node).filterNot(_.isNull).map(found => bytes(found.asText))

  lazy val records: Seq[Record] = each("records").map { node =>
    Record(
      node.get("pid").asLong,
      node.get("partition").asInt,
      node.get("offset").asLong,
      bytes(node.get("hex").asText),
      written(node.get("tagged")),
      written(node.get("sqe"))
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
