---------------------------- MODULE StateCommit ----------------------------
(* The commit of one state partition: attempts at versions on several        *)
(* executors, runs, manifests, adoption of a compaction, purges, zombies.    *)
(* README.md says which code each action is.                                 *)
EXTENDS Naturals, FiniteSets, Sequences

CONSTANTS
  Executors,    \* a set of model values
  Attempts,     \* how many attempts there are in all; each makes one version
  Given,        \* the first so many have made a version each before the model begins
  Compactions,  \* how many compactions there are in all
  FanIn,        \* runs of a compaction; one stands for several in small models
  Format,       \* Spark's checkpoint format: 1, or 2 with an id for each attempt
  MinRetained,  \* spark.sql.streaming.minBatchesToRetain
  LeastRetained,\* format 1 retains so many at least: 2 in OwnStore
  Late,         \* tasks may begin with an earlier version than the newest that Spark has
  Crashes,      \* executors may die
  Lags,         \* each batch has a row for each lag; it leaves in the batch that makes version (its own) + lag
  Inline,       \* a set of booleans: whether a batch's run is in its manifest's file
  Fault         \* a mutation of the protocol, or "none"

ASSUME /\ Format \in {1, 2}
       /\ \A lag \in Lags : lag >= 1
       /\ {Late, Crashes} \subseteq BOOLEAN
       /\ Inline \subseteq BOOLEAN

Ids == 1..Attempts
Merges == (Attempts + 1)..(Attempts + Compactions)

VARIABLES
  files,     \* of the checkpoint: <<"manifest", attempt>> and <<"run", attempt or compaction>>
  attempt,   \* state, executor, base version, what it inherits, what its manifest names
  merge,     \* compactions: state, executor, version, inputs, content
  newest,    \* by executor, the attempt whose version it holds, or 0
  dead,      \* by executor, the files that a purge has still to delete
  done       \* the attempts that Spark's commit log names, by version; 0 in format 1

vars == <<files, attempt, merge, newest, dead, done>>

Retained == IF Format = 2 \/ MinRetained > LeastRetained THEN MinRetained ELSE LeastRetained

Max(set) == CHOOSE x \in set : \A y \in set : x >= y

-----------------------------------------------------------------------------
(* Names. A run has the number of the attempt or the compaction that wrote it. *)

Made(a) == attempt[a].base + 1
Manifest(a) == <<"manifest", a>>
RunFile(r) == <<"run", r>>
FileOf(r) == IF r \in Ids /\ attempt[r].inline THEN Manifest(r) ELSE RunFile(r)

(* StateFileNames.runVersion: the version that was being made. *)
VersionOfRun(r) == IF r \in Ids THEN Made(r) ELSE merge[r].version + 1
VersionOf(f) == VersionOfRun(f[2])

(* Rows: the batch that they came in, and when they leave. *)
RowsUpTo(version) == (1..version) \X Lags
Expired(version) == {row \in RowsUpTo(version) : row[1] + row[2] <= version}
Alive(version) == RowsUpTo(version) \ Expired(version)
Content(r) == IF r \in Ids THEN {Made(r)} \X Lags ELSE merge[r].content

Named(a) == IF a = 0 THEN {} ELSE attempt[a].named
VersionHeld(a) == IF a = 0 THEN 0 ELSE Made(a)

Loadable(a) == Manifest(a) \in files /\ \A r \in Named(a) : FileOf(r) \in files

-----------------------------------------------------------------------------
Free == [state |-> "free", executor |-> 0, base |-> 0, inherits |-> {}, named |-> {}, inline |-> TRUE]

(* The given versions have no compaction. Any executor may hold any of them. *)
Init ==
  LET inline == Inline # {FALSE}
      alive(version) == {row[1] : row \in Alive(version)}
      given(a) == [state |-> "committed", executor |-> 0, base |-> a - 1, inherits |-> alive(a - 1),
                   named |-> alive(a), inline |-> inline]
  IN /\ attempt = [a \in Ids |-> IF a <= Given THEN given(a) ELSE Free]
     /\ files = {<<"manifest", a>> : a \in 1..Given} \cup (IF inline THEN {} ELSE {<<"run", a>> : a \in 1..Given})
     /\ newest \in [Executors -> 0..Given]
     /\ done = [v \in 1..Given |-> IF Format = 2 THEN v ELSE 0]
     /\ dead = [e \in Executors |-> {}]
     /\ merge = [m \in Merges |-> [state |-> "free", executor |-> 0, version |-> 0, inputs |-> {}, content |-> {}]]

(* The attempts whose version a task may begin with: the one that is held here, or else any that the      *)
(* checkpoint has. In format 1 that is more than the code allows: there the greatest number counts, and   *)
(* of equal ones the last name.                                                                           *)
Bases(e, version) ==
  IF version = 0 THEN {0}
  ELSE IF Format = 2 THEN {a \in {done[version]} : newest[e] = a \/ Loadable(a)}
  ELSE IF newest[e] # 0 /\ Made(newest[e]) = version THEN {newest[e]}
  ELSE {a \in Ids : attempt[a].state = "committed" /\ Made(a) = version /\ Loadable(a)}

(* Compacted.fits: an input that the version doesn't have must have expired, and so must rows that were left out. *)
Fits(m, a) ==
  \/ Fault = "adopts what doesn't fit"
  \/ /\ Fault = "adopts after another expiry" \/ Expired(merge[m].version) \subseteq Expired(VersionHeld(a))
     /\ \A r \in merge[m].inputs : r \in Named(a) \/ Content(r) \subseteq Expired(VersionHeld(a))
     /\ merge[m].inputs \cap Named(a) # {}

(* Compactor.tooOld: a purge may have taken its file for an orphan. *)
TooOld(m, a) ==
  VersionOfRun(m) + Retained < VersionHeld(a) + 2 /\ Fault # "adopts what is too old"

Ready(e) == {m \in Merges : merge[m].state = "ready" /\ merge[m].executor = e}

Inherited(e, a) ==
  LET fitting == {m \in Ready(e) : Fits(m, a) /\ ~TooOld(m, a)}
  IN IF fitting = {} THEN Named(a)
     ELSE LET m == CHOOSE m \in fitting : TRUE IN (Named(a) \ merge[m].inputs) \cup {m}

(* A task begins with a version that Spark's commit log has: the newest one, or an earlier one if it comes late. *)
Begin(a, e, version, base, inline) ==
  /\ attempt[a].state = "free"
  /\ \A b \in Ids : b < a => attempt[b].state # "free"
  /\ base \in Bases(e, version)
  /\ attempt' = [attempt EXCEPT ![a] =
       [state |-> IF inline \/ Fault = "commits before uploads end" THEN "ready" ELSE "uploading",
        executor |-> e, base |-> version, inherits |-> Inherited(e, base), named |-> {}, inline |-> inline]]
  /\ newest' = [newest EXCEPT ![e] = base]
  /\ merge' = [m \in Merges |->
       IF m \in Ready(e) /\ TooOld(m, base) THEN [merge[m] EXCEPT !.state = "gone"] ELSE merge[m]]
  /\ UNCHANGED <<files, dead, done>>

Upload(a) ==
  /\ \/ attempt[a].state = "uploading"
     \/ Fault = "commits before uploads end" /\ attempt[a].state \in {"ready", "committed"} /\ ~attempt[a].inline
  /\ files' = files \cup {RunFile(a)}
  /\ attempt' = [attempt EXCEPT ![a].state = IF @ = "uploading" THEN "ready" ELSE @]
  /\ UNCHANGED <<merge, newest, dead, done>>

(* The manifest appears, in one step. The executor holds the version from then on. *)
Commit(a) ==
  LET e == attempt[a].executor
      holds == Made(a) >= VersionHeld(newest[e])
      names == {r \in attempt[a].inherits \cup {a} : Content(r) \cap Alive(Made(a)) # {}}
      overwritten == IF Fault = "one name for all attempts"
                     THEN {Manifest(b) : b \in {b \in Ids : attempt[b].state = "committed" /\ Made(b) = Made(a)}}
                     ELSE {}
  IN /\ attempt[a].state = "ready"
     /\ files' = (files \ overwritten) \cup {Manifest(a)}
     /\ attempt' = [attempt EXCEPT ![a].state = "committed", ![a].named = names]
     /\ newest' = [newest EXCEPT ![e] = IF holds THEN a ELSE @]
     (* Compactor.committed: what the version has, or no later one can use, is dropped. *)
     /\ merge' = [m \in Merges |->
          IF holds /\ m \in Ready(e) /\ (m \in names \/ ~(merge[m].inputs \cap names # {}))
          THEN [merge[m] EXCEPT !.state = "gone"] ELSE merge[m]]
     /\ UNCHANGED <<dead, done>>

(* Spark writes its commit log when a task has told of its commit; in format 2 with that attempt's id. *)
Complete(a) ==
  /\ attempt[a].state = "committed"
  /\ Made(a) = Len(done) + 1
  /\ done' = Append(done, IF Format = 2 THEN a ELSE 0)
  /\ UNCHANGED <<files, attempt, merge, newest, dead>>

(* More than Compaction.due allows: any runs of the version, of whatever level. *)
BeginMerge(m, e, inputs) ==
  LET version == VersionHeld(newest[e])
      rows == UNION {Content(r) : r \in inputs} \cap Alive(version)
  IN /\ merge[m].state = "free"
     /\ \A n \in Merges : n < m => merge[n].state # "free"
     /\ \A n \in Merges : merge[n].executor = e => merge[n].state \notin {"merging", "ready"}
     /\ inputs \subseteq Named(newest[e])
     /\ Cardinality(inputs) = FanIn
     /\ rows # {}
     /\ merge' = [merge EXCEPT ![m] =
          [state |-> "merging", executor |-> e, version |-> version, inputs |-> inputs, content |-> rows]]
     /\ UNCHANGED <<files, attempt, newest, dead, done>>

EndMerge(m) ==
  /\ merge[m].state = "merging"
  /\ files' = files \cup {RunFile(m)}
  /\ merge' = [merge EXCEPT ![m].state = "ready"]
  /\ UNCHANGED <<attempt, newest, dead, done>>

(* CheckpointFiles.purge: it lists, and reads the manifests that are retained. *)
Purge(e) ==
  LET listed == {f[2] : f \in {f \in files : f[1] = "manifest"}}
      last == Max({Made(a) : a \in listed})
      count == IF Fault = "the newest version counts" THEN Retained ELSE Retained + 1
      isOld(v) == v + count <= last
      kept == {a \in listed : ~isOld(Made(a))}
      asked == IF Fault = "purges by the newest manifest" THEN {a \in listed : Made(a) = last} ELSE kept
      named == UNION {{FileOf(r) : r \in Named(a)} : a \in asked}
      old == {f \in files : isOld(VersionOf(f))}
      orphans == IF Fault = "purges new runs"
                 THEN {f \in files : f[1] = "run" /\ f \notin named} ELSE {}
  IN /\ dead[e] = {}
     /\ listed # {}
     /\ dead' = [dead EXCEPT ![e] = (old \ named) \cup orphans]
     /\ dead'[e] # {}
     /\ UNCHANGED <<files, attempt, merge, newest, done>>

(* Manifests first, and one file after the other. *)
Delete(e, f) ==
  /\ f \in dead[e]
  /\ f[1] = "manifest" \/ \A g \in dead[e] : g[1] # "manifest"
  /\ files' = files \ {f}
  /\ dead' = [dead EXCEPT ![e] = @ \ {f}]
  /\ UNCHANGED <<attempt, merge, newest, done>>

(* The executor forgets what it holds, as one that has died. Its attempts stay: they may be zombies, and *)
(* one that does nothing more has died with it.                                                        *)
Crash(e) ==
  /\ Crashes
  /\ newest[e] # 0 \/ dead[e] # {} \/ \E m \in Merges : merge[m].executor = e /\ merge[m].state \in {"merging", "ready"}
  /\ merge' = [m \in Merges |->
       IF merge[m].executor = e /\ merge[m].state \in {"merging", "ready"}
       THEN [merge[m] EXCEPT !.state = "gone"] ELSE merge[m]]
  /\ newest' = [newest EXCEPT ![e] = 0]
  /\ dead' = [dead EXCEPT ![e] = {}]
  /\ UNCHANGED <<files, attempt, done>>

Next ==
  \/ \E a \in Ids, e \in Executors, v \in (IF Late THEN 0 ELSE Len(done))..Len(done), i \in Inline :
       \E base \in Bases(e, v) : Begin(a, e, v, base, i)
  \/ \E a \in Ids : Upload(a) \/ Commit(a) \/ Complete(a)
  \/ \E m \in Merges, e \in Executors :
       \E inputs \in SUBSET Named(newest[e]) : BeginMerge(m, e, inputs)
  \/ \E m \in Merges : EndMerge(m)
  \/ \E e \in Executors : Purge(e) \/ Crash(e) \/ \E f \in dead[e] : Delete(e, f)

Spec == Init /\ [][Next]_vars

Symmetry == LET swap(s) == {f \in [s -> s] : \A x, y \in s : f[x] = f[y] => x = y} IN swap(Executors)

-----------------------------------------------------------------------------
(* A version that a batch may begin with, whichever attempt's manifest counts. *)
CanBegin(version) ==
  IF Format = 2 THEN Loadable(done[version])
  ELSE LET made == {a \in Ids : attempt[a].state = "committed" /\ Made(a) = version /\ Manifest(a) \in files}
       IN made # {} /\ \A a \in made : Loadable(a)

(* The next batch, or one that runs again, can be run by an executor that knows nothing yet. *)
RestartIsPossible == Len(done) > 0 => CanBegin(Len(done))

(* The query can go back by as many batches as Spark retains. *)
RollbackIsPossible ==
  \A v \in 1..Len(done) : v + MinRetained > Len(done) => CanBegin(v)

(* A batch begins with each row that hasn't left, and has it once; so does the version that it makes. *)
RowsAreThereOnce ==
  LET areOnce(rows, runs) == \A row \in rows : Cardinality({r \in runs : row \in Content(r)}) = 1
  IN \A a \in Ids : attempt[a].state # "free" =>
       /\ areOnce(Alive(attempt[a].base), attempt[a].inherits)
       /\ attempt[a].state = "committed" => areOnce(Alive(Made(a)), attempt[a].named)

=============================================================================
