package org.apache.spark.sql.tailrace

import scala.util.control.NonFatal

import org.json4s.JsonAST.{JField, JObject}
import org.json4s.jackson.JsonMethods

/** The topics and offsets of Spark's Kafka source, as its options write them: `{"clicks":{"0":17,"1":0}}`. Text that the source
  * can't read gives none here: the source itself refuses it, with Spark's error.
  */
object KafkaJson {

  /** @return what is said of each topic; none if it is something else */
  def topics(json: String): Option[List[JField]] =
    try
      JsonMethods.parse(json) match {
        case JObject(fields) => Some(fields)
        case _ => None
      }
    catch { case NonFatal(_) => None }

  /** The topics of the option `subscribe`. */
  def subscribed(text: String): Seq[String] = text.split(',').map(_.trim).filter(_.nonEmpty).toSeq
}
