package io.tailrace.join

import io.tailrace.state.StoreKind

/** The sides of a join, by the names that users know. */
private[tailrace] object Side {
  val Left = "left"
  val Right = "right"

  /** The side whose rows are in a store; none if it has no rows of one. */
  def of(kind: StoreKind): Option[String] = kind match {
    case StoreKind.LeftTimeSorted | StoreKind.LeftKeySorted | StoreKind.HeldLeft => Some(Left)
    case StoreKind.RightKeySorted | StoreKind.RightTimeSorted | StoreKind.HeldRight | StoreKind.RightNewest =>
      Some(Right)
    case _ => None
  }
}
