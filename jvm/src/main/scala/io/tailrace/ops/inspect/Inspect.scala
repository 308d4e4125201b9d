package io.tailrace.ops.inspect

import java.io.{InputStream, PrintStream}

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
