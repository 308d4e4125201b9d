package io.tailrace.label

/** What a [[SortedMerge]] does with a key that has more rows than there is memory for. */
sealed abstract class LargeKeys

object LargeKeys {

  /** Each probe comes once, with all rows that it can choose from: they are read again, by time, a window at a time
    * ([[MatchWindow]]).
    */
  case object ByWindow extends LargeKeys

  /** The rows are read in pieces, in any order, and the key's probes come again for each piece. */
  case object InPieces extends LargeKeys

  /** The key's probes come without rows: the caller reads them. */
  case object Apart extends LargeKeys
}
