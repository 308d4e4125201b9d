------------------------------ MODULE Landing ------------------------------
(* How a folder of windows gets the rows of micro-batches: staging, the      *)
(* batch's file, the moves, closings, _SUCCESS. A batch may run again, and   *)
(* with Overlap an earlier driver may live on beside the next one.           *)
(* README.md says which code each action is.                                 *)
EXTENDS Naturals, FiniteSets

CONSTANTS
  Batches,  \* how many there are
  Drivers,  \* how many starts of the query; each has a number, and opens the folder once
  Overlap,  \* whether a driver may be alive when the next one begins
  Fault     \* a mutation of the protocol, or "none"

ASSUME Overlap \in BOOLEAN

(* A batch has a file of rows for its own window, and one for the window of two batches before. *)
Windows(b) == {w \in {b, b - 2} : w >= 1}
(* After batch b all rows of windows before b - 1 have been read, but for late ones. *)
Closable(b) == b - 1

VARIABLES
  begun,      \* batches in Spark's offset log
  committed,  \* batches in its commit log
  staged,     \* files in staging: <<batch, driver, window>>
  stages,     \* directories in staging: <<batch, driver>>
  batchFiles, \* <batch>.batch: batch, driver, and which of its windows were closed
  placed,     \* files in their places: <<batch, driver, window, isLate>>
  closed,     \* <number>.closed: number, through, windows that close
  marked,     \* by window, whether it has a _SUCCESS, and the files on time that were there by then
  driver      \* by number: what it does and knows

vars == <<begun, committed, staged, stages, batchFiles, placed, closed, marked, driver>>

Max(set) == CHOOSE x \in set : \A y \in set : x >= y
Newest(records, field) == CHOOSE r \in records : \A s \in records : r[field] >= s[field]

Ids == 1..Drivers
NoFile == [batch |-> 0, driver |-> 0, late |-> {}]
AllWindows == 1..Batches

Init ==
  /\ begun = 0 /\ committed = 0
  /\ staged = {} /\ stages = {} /\ batchFiles = {} /\ placed = {} /\ closed = {}
  /\ marked = [w \in AllWindows |-> [is |-> FALSE, files |-> {}]]
  /\ driver = [d \in Ids |->
       [at |-> "new", batch |-> 0, file |-> NoFile, todo |-> {}, through |-> 0, closings |-> 0]]

IsAlive(d) == driver[d].at \notin {"new", "gone"}
At(d, place) == driver[d].at = place
Goes(d, changes) == driver' = [driver EXCEPT ![d] = changes]
Dies(d) == driver' = [driver EXCEPT ![d].at = "gone"]

InPlace(b, d, w) == \E late \in BOOLEAN : <<b, d, w, late>> \in placed
OnTime(w) == {f \in placed : f[3] = w /\ ~f[4]}

-----------------------------------------------------------------------------
(* LandingFolder.open: reads the newest batch, and deletes the files of older ones. *)
Open(d) ==
  LET file == IF batchFiles = {} THEN NoFile ELSE Newest(batchFiles, "batch")
      isStaged == <<file.batch, file.driver>> \in stages /\ Fault # "does not finish the newest batch"
  IN /\ At(d, "new")
     /\ \A e \in Ids : (e < d => driver[e].at # "new") /\ (IsAlive(e) => Overlap)
     /\ batchFiles' = IF batchFiles = {} THEN {} ELSE {file}
     /\ Goes(d, [driver[d] EXCEPT !.at = IF isStaged THEN "finishing" ELSE "cleaning", !.file = file,
                                  !.todo = IF isStaged THEN Windows(file.batch) ELSE {}])
     /\ UNCHANGED <<begun, committed, staged, stages, placed, closed, marked>>

(* PlacedFiles.place: one file. One that is neither in staging nor in its place ends the query. *)
Move(d, w) ==
  LET f == driver[d].file
      from == <<f.batch, f.driver, w>>
  IN /\ driver[d].at \in {"finishing", "landing"}
     /\ w \in driver[d].todo
     /\ \/ /\ from \in staged
           /\ staged' = staged \ {from}
           /\ placed' = placed \cup {<<f.batch, f.driver, w, w \in f.late>>}
           /\ Goes(d, [driver[d] EXCEPT !.todo = @ \ {w}])
        \/ /\ from \notin staged
           /\ IF InPlace(f.batch, f.driver, w) THEN Goes(d, [driver[d] EXCEPT !.todo = @ \ {w}]) ELSE Dies(d)
           /\ UNCHANGED <<staged, placed>>
     /\ UNCHANGED <<begun, committed, stages, batchFiles, closed, marked>>

(* All files are in their places. *)
Moved(d) ==
  LET f == driver[d].file
  IN /\ driver[d].at \in {"finishing", "landing"}
     /\ driver[d].todo = {} \/ Fault = "goes on before the files are in their places"
     /\ stages' = stages \ {<<f.batch, f.driver>>}
     /\ staged' = {s \in staged : <<s[1], s[2]>> # <<f.batch, f.driver>>}
     /\ Goes(d, [driver[d] EXCEPT !.at = IF At(d, "finishing") THEN "cleaning" ELSE "landed", !.todo = {}])
     /\ batchFiles' = IF At(d, "landing") THEN {g \in batchFiles : g.batch # f.batch - 1} ELSE batchFiles
     /\ UNCHANGED <<begun, committed, placed, closed, marked>>

(* Staging is emptied, and the newest closing is read; its windows are marked where they aren't. *)
Clean(d) ==
  LET last == Newest(closed, "number")
  IN /\ At(d, "cleaning")
     /\ staged' = {} /\ stages' = {}
     /\ closed' = IF closed = {} THEN {} ELSE {last}
     /\ IF closed = {} THEN Goes(d, [driver[d] EXCEPT !.at = "ready"])
        ELSE Goes(d, [driver[d] EXCEPT !.at = "marking", !.todo = last.windows, !.through = last.through,
                                       !.closings = last.number + 1])
     /\ UNCHANGED <<begun, committed, batchFiles, placed, marked>>

(* LandingFolder.finishMarking: one window. *)
Mark(d, w) ==
  /\ driver[d].at \in {"marking", "closing"}
  /\ w \in driver[d].todo
  /\ marked' = IF marked[w].is THEN marked ELSE [marked EXCEPT ![w] = [is |-> TRUE, files |-> OnTime(w)]]
  /\ Goes(d, [driver[d] EXCEPT !.todo = @ \ {w}])
  /\ UNCHANGED <<begun, committed, staged, stages, batchFiles, placed, closed>>

Marked(d) ==
  /\ driver[d].at \in {"marking", "closing"}
  /\ driver[d].todo = {}
  /\ Goes(d, [driver[d] EXCEPT !.at = IF At(d, "marking") THEN "ready" ELSE "landed"])
  /\ closed' = IF At(d, "closing") THEN {c \in closed : c.number + 2 # driver[d].closings} ELSE closed
  /\ UNCHANGED <<begun, committed, staged, stages, batchFiles, placed, marked>>

(* Spark begins a batch: the first one of a start by its logs, each other one by an entry that nobody has   *)
(* written yet. Landing.addBatch: has it landed already?                                                    *)
Start(d) ==
  LET isFirst == driver[d].batch = 0
      b == IF isFirst THEN committed + 1 ELSE driver[d].batch + 1
      last == driver[d].file
      mustBeThere == {w \in Windows(b) : w \notin last.late /\ w > driver[d].through}
  IN /\ At(d, "ready")
     /\ b <= Batches
     /\ begun' = IF b > begun THEN b ELSE begun
     /\ IF begun >= b /\ ~isFirst THEN Dies(d)
        ELSE IF last.batch = b - 1
        THEN Goes(d, [driver[d] EXCEPT !.at = "staging", !.batch = b, !.todo = Windows(b)])
        ELSE IF last.batch = b /\ \A w \in mustBeThere : InPlace(b, last.driver, w)
        THEN Goes(d, [driver[d] EXCEPT !.at = "landed", !.batch = b])
        ELSE Dies(d)
     /\ UNCHANGED <<committed, staged, stages, batchFiles, placed, closed, marked>>

(* A task writes its file. *)
Stage(d, w) ==
  LET b == driver[d].batch
  IN /\ At(d, "staging")
     /\ w \in driver[d].todo
     /\ IF Fault = "lands without staging"
        THEN placed' = placed \cup {<<b, d, w, w <= driver[d].through>>} /\ UNCHANGED <<staged, stages>>
        ELSE staged' = staged \cup {<<b, d, w>>} /\ stages' = stages \cup {<<b, d>>} /\ UNCHANGED placed
     /\ Goes(d, [driver[d] EXCEPT !.todo = @ \ {w}])
     /\ UNCHANGED <<begun, committed, batchFiles, closed, marked>>

(* LandingFolder.land: the batch's file decides which rows are late. Of two writers one gets the name. *)
Land(d) ==
  LET b == driver[d].batch
      file == [batch |-> b, driver |-> d, late |-> {w \in Windows(b) : w <= driver[d].through}]
  IN /\ At(d, "staging")
     /\ driver[d].todo = {}
     /\ IF \E f \in batchFiles : f.batch = b
        THEN Dies(d) /\ UNCHANGED batchFiles
        ELSE /\ batchFiles' = IF Fault = "deletes the last file first"
                              THEN {f \in batchFiles : f.batch # b - 1} ELSE batchFiles \cup {file}
             /\ Goes(d, [driver[d] EXCEPT !.at = "looking", !.file = file, !.todo = Windows(b)])
     /\ UNCHANGED <<begun, committed, staged, stages, placed, closed, marked>>

(* LandingFolder.checkAlone. The name was free because another driver has gone on and deleted the file: then a *)
(* newer one is there. Or another driver has closed windows that this one takes for open.                      *)
Look(d) ==
  LET isNewer == \E f \in batchFiles : f.batch > driver[d].batch
      isClosed == \E c \in closed : c.number >= driver[d].closings
      sees == \/ isNewer /\ Fault # "does not look for newer batches"
              \/ isClosed /\ Fault # "does not look for closings"
  IN /\ At(d, "looking")
     /\ IF sees
        THEN Dies(d) /\ UNCHANGED batchFiles
        ELSE Goes(d, [driver[d] EXCEPT !.at = "landing"]) /\ UNCHANGED batchFiles
     /\ UNCHANGED <<begun, committed, staged, stages, placed, closed, marked>>

(* LandingFolder.close, after a batch or by the closing thread: not while a batch lands. *)
Close(d) ==
  LET through == Closable(driver[d].file.batch)
      number == driver[d].closings
      windows == (driver[d].through + 1)..through
  IN /\ \/ At(d, "landed")
        \/ Fault = "closes while a batch lands" /\ At(d, "landing")
     /\ through > driver[d].through
     /\ IF \E c \in closed : c.number = number
        THEN Dies(d) /\ UNCHANGED closed
        ELSE /\ closed' = IF Fault = "marks without a closing" THEN closed
                          ELSE closed \cup {[number |-> number, through |-> through, windows |-> windows]}
             /\ Goes(d, [driver[d] EXCEPT !.at = IF At(d, "landing") THEN "landing" ELSE "looking on",
                                          !.todo = IF At(d, "landing") THEN @ ELSE windows,
                                          !.through = through, !.closings = number + 1])
     /\ IF At(d, "landing")
        THEN marked' = [w \in AllWindows |-> IF w \in windows /\ ~marked[w].is
                                             THEN [is |-> TRUE, files |-> OnTime(w)] ELSE marked[w]]
        ELSE UNCHANGED marked
     /\ UNCHANGED <<begun, committed, staged, stages, batchFiles, placed>>

(* The same look after the file of a closing, before the first window is marked. *)
LookOn(d) ==
  LET isNewer == \/ \E f \in batchFiles : f.batch > driver[d].file.batch
                 \/ \E c \in closed : c.number >= driver[d].closings
  IN /\ At(d, "looking on")
     /\ IF isNewer /\ Fault # "closes without a look"
        THEN Dies(d)
        ELSE Goes(d, [driver[d] EXCEPT !.at = "closing"])
     /\ UNCHANGED <<begun, committed, staged, stages, batchFiles, placed, closed, marked>>

(* Spark's commit log has the batch. Of two writers one gets the name. *)
Commit(d) ==
  /\ At(d, "landed")
  /\ IF committed = driver[d].batch - 1
     THEN committed' = driver[d].batch /\ Goes(d, [driver[d] EXCEPT !.at = "ready"])
     ELSE Dies(d) /\ UNCHANGED committed
  /\ UNCHANGED <<begun, staged, stages, batchFiles, placed, closed, marked>>

Crash(d) ==
  /\ IsAlive(d)
  /\ Dies(d)
  /\ UNCHANGED <<begun, committed, staged, stages, batchFiles, placed, closed, marked>>

Next == \E d \in Ids :
  \/ Open(d) \/ Moved(d) \/ Clean(d) \/ Marked(d) \/ Start(d) \/ Land(d) \/ Look(d) \/ Close(d) \/ LookOn(d) \/ Commit(d) \/ Crash(d)
  \/ \E w \in AllWindows : Move(d, w) \/ Mark(d, w) \/ Stage(d, w)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* No row is in the folder twice. *)
LandsOnce ==
  \A b \in 1..Batches, w \in AllWindows : Cardinality({f \in placed : f[1] = b /\ f[3] = w}) <= 1

(* Rows of a batch that Spark takes for done are in their places. *)
NothingIsLost ==
  \A b \in 1..committed : \A w \in Windows(b) : \E d \in Ids : InPlace(b, d, w)

(* A window with a _SUCCESS gets no more rows. *)
MarkedIsComplete == \A w \in AllWindows : marked[w].is => OnTime(w) = marked[w].files

=============================================================================
