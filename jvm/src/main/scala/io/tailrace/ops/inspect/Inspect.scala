package io.tailrace.ops.inspect

import java.io.{InputStream, PrintStream}
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.tailrace.SparkCheckpoints
import org.json4s.jackson.Serialization
import org.json4s.{Formats, NoTypeHints}

import io.tailrace.checkpoint.SparkCheckpoint
import io.tailrace.common.{Errors, TailraceAnalysisException, TailraceStateException}

/** The program of `tailrace inspect`. It prints a [[CheckpointReport]], as a [[JsonProgram]] does.
  *
  * {{{
  *   java -cp '<Spark>/jars/\*:tailrace.jar' io.tailrace.ops.inspect.Inspect <checkpoint> [<version>] < conf.json
  * }}}
  */
object Inspect {
  def main(arguments: Array[String]): Unit = sys.exit(run(arguments.toSeq, System.in, System.out))

  /** @return the exit code */
  private[inspect] def run(arguments: Seq[String], in: InputStream, out: PrintStream): Int =
    JsonProgram.run(arguments.head, in, out) { conf =>
      new CheckpointInspection(arguments.head, conf).report(arguments.lift(1).map(_.toLong))
    }
}

/** A program that reads a checkpoint for a command. It needs Spark's jars on the class path, and no session.
  *
  * The standard input has Spark's properties as a JSON object: an object store's may be secrets, which a
  * command line would show. It prints its answer as JSON, or a [[JsonProgram.Refusal]], and then ends with 1.
  */
private[tailrace] object JsonProgram {
  private implicit val formats: Formats = Serialization.formats(NoTypeHints).preservingEmptyValues

  /** An error of Tailrace's own. */
  final case class Refusal(condition: String, message: String, parameters: Map[String, String])

  /** @param checkpoint as the user has named it
    * @return the exit code
    */
  def run(checkpoint: String, in: InputStream, out: PrintStream)(answer: Configuration => AnyRef): Int = {
    val properties = Serialization.read[Map[String, String]](new String(in.readAllBytes(), UTF_8))
    def print(answer: AnyRef): Unit = {
      out.write(Serialization.write(answer).getBytes(UTF_8))
      out.flush()
    }
    def refuse(error: Throwable with SparkThrowable) = {
      print(Refusal(error.getCondition, error.getMessage, error.getMessageParameters.asScala.toMap))
      1
    }
    try {
      print(SparkCheckpoint.readable(checkpoint)(answer(SparkCheckpoints.hadoopConf(properties))))
      0
    } catch {
      case e @ (_: TailraceAnalysisException | _: TailraceStateException) =>
        refuse(e.asInstanceOf[Throwable with SparkThrowable])
      // An error of a file system, or of one of its settings: a command reports it in one line.
      case NonFatal(e) => refuse(Errors.stateUnreadable(checkpoint, e))
    }
  }
}
