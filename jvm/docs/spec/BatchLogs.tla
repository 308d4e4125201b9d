----------------------------- MODULE BatchLogs -----------------------------
(* The driver's logs of micro-batches beside Spark's own: the marks of a     *)
(* replay filter, the progress of hosts, the progress of a synced join. What *)
(* a batch is judged by must be the same whenever it runs.                   *)
(* README.md says which code each action is.                                 *)
EXTENDS Integers, FiniteSets

CONSTANTS
  Kind,       \* "marks": a file a batch, a snapshot beside some; "hosts": a delta or a snapshot; "sync": all
  Batches,    \* the greatest number of a batch; the first is 0
  Starts,     \* how many starts of the query there are
  Retained,   \* spark.sql.streaming.minBatchesToRetain
  Deltas,     \* so many files behind a snapshot, then comes the next one
  Rollbacks,  \* how often somebody takes the newest entries out of Spark's logs
  Fault       \* a mutation of the protocol, or "none"

ASSUME Kind \in {"marks", "hosts", "sync"}

VARIABLES
  offsets,  \* entries of Spark's offset log, each with the data of its batch: 1 or 2
  commits,  \* entries of Spark's commit log
  files,    \* of the log: kind, batch, the batch that a delta adds to (-1: a snapshot), rows
  pc,       \* what the driver does
  batch,    \* the driver's batch
  memory,   \* what it knows of the batches before it
  since,    \* files behind the last snapshot, as the driver knows it
  judged,   \* by batch: what its last run was judged by, while the batch's entry is the same
  starts, rollbacks

vars == <<offsets, commits, files, pc, batch, memory, since, judged, starts, rollbacks>>

Max(set) == CHOOSE x \in set : \A y \in set : x >= y
Numbers == 0..Batches
Lost == {<<-1, 0>>}

(* What has been read up to a batch: a row for each batch, with its data. *)
Row(b) == {<<b, offsets[b]>>}

-----------------------------------------------------------------------------
(* What a batch begins with, by the files alone; Lost if one is missing. *)

OfMarks(b, known) ==
  LET snapshots == {f.batch : f \in {f \in known : f.kind = "snapshot" /\ f.batch < b}}
      first == IF snapshots = {} THEN 0 ELSE Max(snapshots) + 1
      base == IF snapshots = {} THEN {} ELSE (CHOOSE f \in known : f.kind = "snapshot" /\ f.batch = first - 1).rows
      last == IF Fault = "counts its own marks" THEN b ELSE b - 1
      moved == {f \in known : f.kind = "file" /\ f.batch \in first..last}
  IN IF \A n \in first..(b - 1) : \E f \in moved : f.batch = n
     THEN base \cup UNION {f.rows : f \in moved} ELSE Lost

RECURSIVE Chain(_, _)
Chain(b, known) ==
  LET found == {f \in known : f.batch = b}
      f == CHOOSE f \in found : TRUE
      before == Chain(f.previous, known)
  IN IF found = {} THEN Lost
     ELSE IF f.previous < 0 THEN f.rows
     ELSE IF before = Lost THEN Lost ELSE before \cup f.rows

Before(b, known) ==
  IF b = 0 /\ Fault # "counts its own marks" THEN {}
  ELSE IF Kind = "marks" THEN OfMarks(b, known) ELSE Chain(b - 1, known)

RECURSIVE Length(_, _)
Length(b, known) ==
  LET f == CHOOSE f \in known : f.batch = b
  IN IF f.previous < 0 THEN 0 ELSE 1 + Length(f.previous, known)

(* BatchFiles.deleteBefore the oldest snapshot that a start needs. *)
Purged(all, retainFrom) ==
  LET oldest == {f.batch : f \in {f \in all : f.previous < 0 /\ f.kind # "file" /\ f.batch <= retainFrom}}
      cut == IF Fault = "purges by the newest snapshot"
             THEN {f.batch : f \in {f \in all : f.previous < 0 /\ f.kind # "file"}} ELSE oldest
  IN IF cut = {} THEN all
     ELSE {f \in all : f.batch > Max(cut) \/ (f.batch = Max(cut) /\ f.kind # "file")}

-----------------------------------------------------------------------------
Init ==
  /\ offsets = [b \in Numbers |-> 0] /\ commits = {} /\ files = {}
  /\ pc = "off" /\ batch = 0 /\ memory = {} /\ since = 0
  /\ judged = [b \in Numbers |-> {}]
  /\ starts = 0 /\ rollbacks = 0

(* A start goes on behind the last entry of the commit log: with a batch that has an offset entry, or a new one. *)
Start ==
  LET b == IF commits = {} THEN 0 ELSE Max(commits) + 1
      before == Before(b, files)
      (* ProgressLog.load deletes what a failed attempt has left. *)
      known == IF Kind = "hosts" /\ Fault # "leaves abandoned files" THEN {f \in files : f.batch < b} ELSE files
  IN /\ pc = "off" /\ starts < Starts /\ b <= Batches
     /\ starts' = starts + 1
     /\ batch' = b
     /\ memory' = before
     /\ since' = IF Kind = "hosts" /\ b > 0 /\ before # Lost THEN Length(b - 1, files) ELSE 0
     /\ files' = known
     /\ pc' = "ready"
     /\ UNCHANGED <<offsets, commits, judged, rollbacks>>

(* Spark writes the batch's offsets, unless they are there. *)
Offset(data) ==
  /\ pc = "ready"
  /\ offsets' = IF offsets[batch] = 0 THEN [offsets EXCEPT ![batch] = data] ELSE offsets
  /\ offsets[batch] = 0 \/ data = 1
  /\ pc' = "begun"
  /\ UNCHANGED <<commits, files, batch, memory, since, judged, starts, rollbacks>>

(* The tasks judge their rows. Marks: with many files, a snapshot of what is before the batch comes first. *)
Run ==
  LET moved == Cardinality({f \in files : f.kind = "file" /\ f.batch < batch /\
                            \A s \in files : s.kind = "snapshot" /\ s.batch < batch => f.batch > s.batch})
      snapshot == [kind |-> "snapshot", batch |-> batch - 1, previous |-> -1, rows |-> memory]
      others == {f \in files : f.kind # "snapshot" \/ f.batch # batch - 1}
  IN /\ pc = "begun"
     /\ files' = IF Kind = "marks" /\ moved >= Deltas /\ memory # Lost
                 THEN Purged(others \cup {snapshot}, batch - 1 - Retained) ELSE files
     /\ judged' = [judged EXCEPT ![batch] = @ \cup {memory}]
     /\ pc' = IF Fault = "writes behind the commit log" THEN "told" ELSE "ran"
     /\ UNCHANGED <<offsets, commits, batch, memory, since, starts, rollbacks>>

(* The driver writes the batch's file. A snapshot may come early: of many hosts that have moved, or that are forgotten. *)
Write(isSnapshot) ==
  LET isDelta == Kind = "hosts" /\ since < Deltas /\ batch > 0 /\ ~isSnapshot
      kind == IF Kind # "hosts" THEN "file" ELSE IF isDelta THEN "delta" ELSE "snapshot"
      rows == IF Kind = "marks" \/ isDelta THEN Row(batch) ELSE memory \cup Row(batch)
      file == [kind |-> kind, batch |-> batch, previous |-> IF isDelta THEN batch - 1 ELSE -1, rows |-> rows]
      all == {f \in files : f.kind # kind \/ f.batch # batch} \cup {file}
      after == batch - Retained
  IN /\ pc = "ran" \/ (pc = "committed" /\ Fault = "writes behind the commit log")
     /\ files' = IF Kind = "sync"
                 THEN {f \in all : f.batch >= IF Fault = "purges by the newest snapshot" THEN batch ELSE after - 1}
                 ELSE IF Kind = "hosts" /\ ~isDelta THEN Purged(all, after) ELSE all
     /\ since' = IF Kind # "hosts" THEN 0 ELSE IF isDelta THEN since + 1 ELSE 0
     /\ pc' = IF pc = "ran" THEN "told" ELSE "next"
     /\ UNCHANGED <<offsets, commits, batch, memory, judged, starts, rollbacks>>

Commit ==
  /\ pc = "told"
  /\ commits' = commits \cup {batch}
  /\ pc' = IF Fault = "writes behind the commit log" THEN "committed" ELSE "next"
  /\ UNCHANGED <<offsets, files, batch, memory, since, judged, starts, rollbacks>>

(* The next batch of the same start goes on from memory. *)
GoOn ==
  /\ pc = "next" /\ batch < Batches
  /\ memory' = memory \cup Row(batch)
  /\ batch' = batch + 1
  /\ pc' = "ready"
  /\ UNCHANGED <<offsets, commits, files, since, judged, starts, rollbacks>>

Crash ==
  /\ pc # "off"
  /\ pc' = "off"
  /\ UNCHANGED <<offsets, commits, files, batch, memory, since, judged, starts, rollbacks>>

(* Somebody takes the newest entries out of Spark's logs, as far back as Spark keeps them: batch b runs again, and *)
(* those behind it are new.                                                                                       *)
RollBack(b) ==
  LET begun == Max({n \in Numbers : offsets[n] # 0})
  IN /\ pc = "off" /\ rollbacks < Rollbacks
     /\ commits # {} /\ b \in commits /\ b + Retained > Max(commits) /\ begun - Retained <= b - 1
     /\ commits' = {n \in commits : n < b}
     /\ offsets' = [n \in Numbers |-> IF n > b THEN 0 ELSE offsets[n]]
     /\ judged' = [n \in Numbers |-> IF n > b THEN {} ELSE judged[n]]
     /\ rollbacks' = rollbacks + 1
     /\ UNCHANGED <<files, pc, batch, memory, since, starts>>

Next ==
  \/ Start \/ Run \/ Commit \/ GoOn \/ Crash
  \/ \E data \in {1, 2} : Offset(data)
  \/ \E isSnapshot \in BOOLEAN : Write(isSnapshot)
  \/ \E b \in Numbers : RollBack(b)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* All runs of a batch are judged by the same. *)
JudgesAlike == \A b \in Numbers : Cardinality(judged[b]) <= 1

(* A batch is judged by all batches before it, and by nothing else. *)
JudgesByAllBefore ==
  \A b \in Numbers : judged[b] \subseteq {{<<n, offsets[n]>> : n \in 0..(b - 1)}}

(* A batch that is done has one file of hosts: of a delta and a snapshot either would be read. *)
OneFileABatch == Kind = "hosts" => \A b \in commits : Cardinality({f \in files : f.batch = b}) <= 1

(* A start finds what its batch begins with, and so does one that goes back by what Spark retains. *)
StartIsPossible ==
  /\ commits # {} /\ Max(commits) < Batches => Before(Max(commits) + 1, files) # Lost
  /\ \A b \in commits : b + Retained > Max(commits) /\ (\A n \in Numbers : offsets[n] # 0 => n - Retained <= b - 1)
       => Before(b, files) # Lost

=============================================================================
