package io.tailrace.ops.why

import java.io.{InputStream, PrintStream}

import io.tailrace.ops.inspect.JsonProgram

/** The program of `tailrace why`. It prints a [[WhyReport]], as a [[JsonProgram]] does.
  *
  * {{{
  *   java -cp '<Spark>/jars/\*:tailrace.jar' io.tailrace.ops.why.Why <checkpoint> <rows> [<key>] < conf.json
  * }}}
  */
object Why {
  def main(arguments: Array[String]): Unit = sys.exit(run(arguments.toSeq, System.in, System.out))

  /** @return the exit code */
  private[why] def run(arguments: Seq[String], in: InputStream, out: PrintStream): Int =
    JsonProgram.run(arguments.head, in, out) { conf =>
      new Explanation(arguments.head, conf, arguments(1).toInt).report(arguments.lift(2))
    }
}
