package io.tailrace.inspect

import java.io.{InputStream, PrintStream}
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.tailrace.SparkCheckpoints
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{TailraceAnalysisException, TailraceStateException}

/** The program of `tailrace inspect`. It needs Spark's jars on the class path, and no Spark session.
  *
  * {{{
  *   java -cp '<Spark>/jars/\*:tailrace.jar' io.tailrace.inspect.Inspect <checkpoint> [<version>] < conf.json
  * }}}
  *
  * The standard input has Spark's properties as a JSON object: an object store's may be secrets, which a
  * command line would show. Prints a [[CheckpointReport]] as JSON, or a [[Refusal]] and then ends with 1.
  */
object Inspect {
  private implicit val formats: Formats = Serialization.formats(NoTypeHints).preservingEmptyValues

  /** An error of Tailrace's own. */
  final case class Refusal(condition: String, message: String, parameters: Map[String, String])

  def main(arguments: Array[String]): Unit = sys.exit(run(arguments.toSeq, System.in, System.out))

  /** @return the exit code */
  private[inspect] def run(arguments: Seq[String], in: InputStream, out: PrintStream): Int = {
    val properties = Serialization.read[Map[String, String]](new String(in.readAllBytes(), UTF_8))
    val checkpoint = arguments.head
    def print(answer: AnyRef): Unit = {
      out.write(Serialization.write(answer).getBytes(UTF_8))
      out.flush()
    }
    try {
      val inspection =
        SparkCheckpoint.readable(checkpoint)(
          new CheckpointInspection(checkpoint, SparkCheckpoints.hadoopConf(properties))
        )
      print(SparkCheckpoint.readable(checkpoint)(inspection.report(arguments.lift(1).map(_.toLong))))
      0
    } catch {
      case e @ (_: TailraceAnalysisException | _: TailraceStateException) =>
        val refusal = e.asInstanceOf[Throwable with SparkThrowable]
        print(Refusal(refusal.getCondition, refusal.getMessage, refusal.getMessageParameters.asScala.toMap))
        1
    }
  }
}
