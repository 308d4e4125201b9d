------------------------------ MODULE Rescale ------------------------------
(* Another number of state partitions: a checkpoint turns over from one      *)
(* layout of a join's state to another. Rescalings may die at any step, run  *)
(* beside each other, and beside a query that somebody starts meanwhile.     *)
(* README.md says which code each action is.                                 *)
EXTENDS Naturals, FiniteSets

CONSTANTS
  Commands,  \* how many rescalings there are; each one makes a number of its own claim
  Batches,   \* how many batches the query may begin behind the first one
  Beside,    \* whether a query may run beside rescalings
  Fault      \* a mutation of the protocol, or "none"

(* A layout is a directory: 0 is that of before; command c writes directory c, of partitions Number(c). *)
Ids == 1..Commands
Number(layout) == IF layout = 0 THEN 1 ELSE layout + 1

VARIABLES
  offsets,   \* the newest entry of Spark's offset log: batch, and the number of partitions
  commits,   \* the newest batch in its commit log
  layouts,   \* tailrace-join.json: the directories that it names
  versions,  \* complete versions: <<directory, version>>
  claims,    \* tailrace-rescale/: numbers
  command,   \* by rescaling: what it does, and what it has read
  query,     \* what the query does, and the directory that it writes
  beside     \* a turn that was too late stays: QueryCanStart says which

vars == <<offsets, commits, layouts, versions, claims, command, query, beside>>

Max(set) == CHOOSE x \in set : \A y \in set : x >= y

(* JoinCheckpoint.layout: the directory of a number; none: TAILRACE_STATE_PARTITIONS. *)
Of(known, number) == {l \in known : Number(l) = number}

Idle == [at |-> "new", claim |-> 0, completed |-> 0, begun |-> 0, named |-> 0, before |-> 0, written |-> {}]

Init ==
  /\ offsets \in {[batch |-> b, number |-> 1] : b \in {0, 1}}
  /\ commits = 0
  /\ layouts = {0}
  (* A batch that was cut off may have made its version. *)
  /\ versions \in {{<<0, 1>>}, {<<0, v>> : v \in 1..(offsets.batch + 1)}}
  /\ claims = {}
  /\ command = [c \in Ids |-> Idle]
  /\ query = [at |-> "off", batch |-> 0, directory |-> 0]
  /\ beside = FALSE

At(c, place) == command[c].at = place
To(c, place) == command' = [command EXCEPT ![c].at = place]
IsNewest(c) == claims # {} /\ Max(claims) = command[c].claim

(* StoppedQuery.checkAlone *)
Alone(c) ==
  \/ IsNewest(c) /\ offsets.number = command[c].named
  \/ Fault = "turns over without a look"

-----------------------------------------------------------------------------
(* Of two processes one gets a number. What the logs say is read before, and looked at again. *)
Read(c) ==
  /\ At(c, "new") /\ \A d \in Ids : d < c => ~At(d, "new")
  /\ query.at = "off" \/ Beside
  /\ offsets.batch \in {commits, commits + 1}
  /\ command' = [command EXCEPT ![c] = [Idle EXCEPT !.at = "read", !.completed = commits,
                                        !.begun = offsets.batch, !.named = offsets.number]]
  /\ UNCHANGED <<offsets, commits, layouts, versions, claims, query, beside>>

Claim(c) ==
  LET number == IF claims = {} THEN 1 ELSE Max(claims) + 1
  IN /\ At(c, "read")
     /\ claims' = {number}
     /\ command' = [command EXCEPT ![c].claim = number, ![c].at = "claimed"]
     /\ UNCHANGED <<offsets, commits, layouts, versions, query, beside>>

(* The directory that holds the version; if a query has run while the number changed, the other one may. *)
LayOut(c) ==
  LET version == command[c].completed + 1
      named == Of(layouts, command[c].named)
      whole == {l \in layouts : <<l, version>> \in versions}
      before == IF named \cap whole # {} THEN named \cap whole ELSE whole
  IN /\ At(c, "claimed")
     /\ IF ~Alone(c) \/ before = {}
        THEN To(c, "gone") /\ UNCHANGED layouts
        ELSE \E b \in before :
               /\ layouts' = {b, c}
               /\ command' = [command EXCEPT ![c].before = b, ![c].written = layouts, ![c].at = "laid out"]
     /\ UNCHANGED <<offsets, commits, versions, claims, query, beside>>

IsReplaced(c) == layouts # {command[c].before, c} /\ Fault # "turns over without a look"

(* Another one has turned over meanwhile, and needs the directories that it has named. *)
LookAgain(c) ==
  LET isLate == offsets.number # command[c].named /\ Fault # "turns over without a look"
  IN /\ At(c, "laid out")
     /\ layouts' = IF isLate /\ ~IsReplaced(c) THEN command[c].written ELSE layouts
     /\ To(c, IF isLate THEN "gone" ELSE "splitting")
     /\ UNCHANGED <<offsets, commits, versions, claims, query, beside>>

(* The job and the manifests: of the last version, and of the one that a batch which was cut off has made. *)
Split(c) ==
  LET r == command[c]
      made == {v \in {r.completed + 1, r.begun + 1} : <<r.before, v>> \in versions}
  IN /\ At(c, "splitting")
     /\ IF r.completed + 1 \notin made THEN To(c, "gone") /\ UNCHANGED versions
        ELSE /\ versions' = versions \cup {<<c, v>> : v \in made}
             /\ To(c, "split")
     /\ UNCHANGED <<offsets, commits, layouts, claims, query, beside>>

Check(c) ==
  /\ At(c, "split")
  /\ LET isOther == (commits # command[c].completed \/ offsets.batch # command[c].begun)
                    /\ Fault # "turns over without a look"
     IN IF isOther \/ IsReplaced(c) \/ ~Alone(c) THEN To(c, "gone") ELSE To(c, "sure")
  /\ UNCHANGED <<offsets, commits, layouts, versions, claims, query, beside>>

(* The turn: one write, of the entry of the batch that the command has read. *)
TurnOver(c) ==
  /\ At(c, "sure")
  /\ offsets' = IF offsets.batch = command[c].begun THEN [offsets EXCEPT !.number = Number(c)] ELSE offsets
  /\ To(c, "turned")
  /\ beside' = (beside \/ query.at \in {"begun", "made"} \/ commits # command[c].completed)
  /\ UNCHANGED <<commits, layouts, versions, claims, query>>

(* Another one has named its directories between the look and the turn, and nobody would find those of this one. *)
TakeBack(c) ==
  LET isForgotten == IF Fault = "takes back what another one goes on from" THEN IsReplaced(c) ELSE c \notin layouts
  IN /\ At(c, "turned")
     /\ offsets' = IF isForgotten /\ offsets.number = Number(c) /\ offsets.batch = command[c].begun
                   THEN [offsets EXCEPT !.number = command[c].named] ELSE offsets
     /\ To(c, "gone")
     /\ UNCHANGED <<commits, layouts, versions, claims, query, beside>>

Die(c) ==
  /\ command[c].at \notin {"new", "gone"}
  /\ To(c, "gone")
  /\ beside' = (beside \/ (At(c, "turned") /\ c \notin layouts))
  /\ UNCHANGED <<offsets, commits, layouts, versions, claims, query>>

-----------------------------------------------------------------------------
(* A query starts: its number is that of the newest entry, its directory that of the number. *)
StartQuery ==
  LET number == offsets.number
      found == Of(layouts, number)
      next == commits + 1
  IN /\ query.at = "off" /\ next <= Batches
     /\ Beside \/ \A c \in Ids : command[c].at \in {"new", "gone"}
     /\ found # {}
     /\ \E l \in found :
          /\ <<l, next>> \in versions
          /\ query' = [at |-> "begun", batch |-> next, directory |-> l]
     /\ offsets' = IF offsets.batch < next THEN [batch |-> next, number |-> number] ELSE offsets
     /\ UNCHANGED <<commits, layouts, versions, claims, command, beside>>

MakeVersion ==
  /\ query.at = "begun"
  /\ <<query.directory, query.batch>> \in versions
  /\ versions' = versions \cup {<<query.directory, query.batch + 1>>}
  /\ query' = [query EXCEPT !.at = "made"]
  /\ UNCHANGED <<offsets, commits, layouts, claims, command, beside>>

Complete ==
  /\ query.at = "made"
  /\ commits' = query.batch
  /\ query' = [query EXCEPT !.at = "done"]
  /\ UNCHANGED <<offsets, layouts, versions, claims, command, beside>>

(* FormerLayouts.delete, with the second batch of a run: the first one has completed. *)
NextBatch ==
  /\ query.at = "done" /\ query.batch < Batches
  /\ LET d == query.directory
     IN /\ versions' = {v \in versions : v[1] = d}
        /\ layouts' = {d}
        /\ offsets' = [batch |-> query.batch + 1, number |-> Number(d)]
  /\ query' = [query EXCEPT !.at = "begun", !.batch = @ + 1]
  /\ UNCHANGED <<commits, claims, command, beside>>

StopQuery ==
  /\ query.at # "off"
  /\ query' = [query EXCEPT !.at = "off"]
  /\ UNCHANGED <<offsets, commits, layouts, versions, claims, command, beside>>

DeleteEarly ==
  /\ Fault = "deletes the old state before a batch is done" /\ query.at = "begun"
  /\ versions' = {v \in versions : v[1] = query.directory}
  /\ UNCHANGED <<offsets, commits, layouts, claims, command, query, beside>>

Next ==
  \/ \E c \in Ids : Read(c) \/ Claim(c) \/ LayOut(c) \/ LookAgain(c) \/ Split(c) \/ Check(c)
                    \/ TurnOver(c) \/ TakeBack(c) \/ Die(c)
  \/ StartQuery \/ MakeVersion \/ Complete \/ NextBatch \/ StopQuery \/ DeleteEarly

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
StateIsThere == \E l \in layouts : <<l, commits + 1>> \in versions

(* Two turns are too late and can't be taken back: a query had a batch in hand, whose version is in the old directory  *)
(* alone; or another rescaling has named its directories, and this one dies before it looks. A start is refused by name *)
(* then, and the next rescaling finds the directory that is whole.                                                     *)
QueryCanStart ==
  LET isQuiet == query.at = "off" /\ \A c \in Ids : command[c].at \in {"new", "gone"}
  IN isQuiet /\ ~beside => \E l \in Of(layouts, offsets.number) : <<l, commits + 1>> \in versions

=============================================================================
