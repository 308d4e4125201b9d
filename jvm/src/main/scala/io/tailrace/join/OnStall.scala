package io.tailrace.join

import io.tailrace.common.{Arguments, Policy, TimeSpan}

/** The treatment of a part of a join's input that holds the join back, idle while other parts aren't.
  *
  * @param afterMs the idle time
  */
final case class OnStall(policy: Policy, afterMs: Long)

/** The arguments `on_stall` and `stall_after` of all calls. */
private[tailrace] object OnStall {

  /** A minute: a join that only waits is warned of nevertheless. */
  private val DefaultMs = 60L * 1000

  def afterMs(arguments: Arguments, stallAfter: Option[TimeSpan]): Long =
    stallAfter.fold(DefaultMs)(arguments.millis("stall_after", _))

  /** @param argument the one that has the policy */
  def policy(
      arguments: Arguments,
      argument: String,
      value: String,
      stallAfter: Option[TimeSpan],
      allowed: Seq[Policy] = Policy.onStall
  ): Policy = {
    val policy = arguments.choice(argument, value, allowed)
    if (stallAfter.isEmpty && policy != Policy.Pause)
      throw arguments.needs(argument, value, "stall_after, for instance stall_after='5 minutes'")
    policy
  }
}
