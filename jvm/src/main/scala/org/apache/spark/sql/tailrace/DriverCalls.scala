package org.apache.spark.sql.tailrace

import java.lang.ref.WeakReference
import java.util.UUID

import scala.collection.concurrent.TrieMap
import scala.concurrent.duration._
import scala.util.control.NonFatal

import org.apache.spark.rpc.{RpcCallContext, RpcEndpointRef, RpcEnv, RpcTimeout, ThreadSafeRpcEndpoint}
import org.apache.spark.util.{RpcUtils, ThreadUtils}
import org.apache.spark.{SparkEnv, SparkException}

/** Answers a question that a task asks the driver before it ends. Question and answer are bytes. */
trait DriverAnswers {

  /** Called by several tasks at a time. It may take its time, to write a file for instance. */
  def answer(question: Array[Byte]): Array[Byte]
}

/** The address that a task asks.
  *
  * @param answers held by the driver's copy only
  */
final class DriverCall private[tailrace] (@transient val answers: DriverAnswers, id: String)
    extends Serializable {

  /** Called in a task. Throws the driver's error, or one if the driver can't be reached. */
  def apply(question: Array[Byte]): Array[Byte] = DriverCalls.ask(id, question)
}

/** Calls from tasks to the driver by Spark's RPC, as its state stores make them. Accumulators arrive too late
  * for facts that must be known before a task ends.
  */
object DriverCalls {
  private val Name = "TailraceDriverCalls"

  // The driver may write a file while a task waits, and file systems stall for longer than Spark's two minutes.
  private val Patience = 15.minutes
  private val answering = TrieMap.empty[String, WeakReference[DriverAnswers]]
  private var endpoint: Option[RpcEnv] = None
  @volatile private var driver: Option[(RpcEnv, RpcEndpointRef)] = None

  /** On the driver. Tasks get answers as long as the driver holds the object that this returns. */
  def register(answers: DriverAnswers): DriverCall = {
    synchronized {
      val env = SparkEnv.get.rpcEnv
      if (!endpoint.contains(env)) {
        env.setupEndpoint(Name, new Endpoint(env))
        endpoint = Some(env)
      }
    }
    answering.foreach { case (id, known) => if (known.get == null) answering.remove(id) }
    val id = UUID.randomUUID.toString
    answering.put(id, new WeakReference(answers))
    new DriverCall(answers, id)
  }

  private[tailrace] def ask(id: String, question: Array[Byte]): Array[Byte] =
    try ref().askSync[Array[Byte]]((id, question), new RpcTimeout(Patience, "Tailrace's call to the driver"))
    catch {
      // Spark's error only reports the wait. Users can act on its cause.
      case e: SparkException if e.getCause != null => throw e.getCause
    }

  private def ref(): RpcEndpointRef = {
    val env = SparkEnv.get
    driver.filter(_._1 eq env.rpcEnv).map(_._2).getOrElse {
      val made = RpcUtils.makeDriverRef(Name, env.conf, env.rpcEnv)
      driver = Some(env.rpcEnv -> made)
      made
    }
  }

  private val MostAtOnce = 16

  // In threads of its own: Spark's few threads for messages take the executors' heartbeats, too.
  private lazy val threads = ThreadUtils.newDaemonCachedThreadPool("tailrace-driver-calls", MostAtOnce)

  private final class Endpoint(override val rpcEnv: RpcEnv) extends ThreadSafeRpcEndpoint {
    override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
      case (id: String, question: Array[Byte]) => threads.execute(() => answer(id, question, context))
    }

    private def answer(id: String, question: Array[Byte], context: RpcCallContext): Unit =
      try {
        val answers = answering.get(id).flatMap(known => Option(known.get))
        require(answers.isDefined, s"nobody on the driver answers $id: its batch is over")
        context.reply(answers.get.answer(question))
      } catch {
        case e: Throwable =>
          context.sendFailure(e)
          if (!NonFatal(e)) throw e
      }
  }
}
