/*
 * Epoch scope: an input of two records, in one epoch with two writers or in two epochs with one
 * writer each, as planned. A record's output is written by attempts, each in a transaction (a slot
 * here) with an id of its own. Two drivers of one query run, the second from any moment on, perhaps
 * with an older copy of the checkpoint or none.
 *
 * Every request to a broker and every file that Spark puts in place is one atomic step; between two
 * steps of a process anything else may happen. A dead driver is one that takes no further step: the
 * second one can always start. An error that stops a query is always allowed, a wrong result never.
 *
 * A macro takes a rule out; run.py knows which ones and what must then be found.
 */

#define RECORDS 2
#ifndef FIRST
#define FIRST 2        /* attempts of the first driver's tasks */
#endif
#ifndef SECOND
#define SECOND 3       /* of the second one's */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1     /* writers' transactions that time out */
#endif
#define SLOTS (FIRST + SECOND)
#define NONE 15

/* --- Spark's checkpoint: how many epochs are in each log, and where each planned one ends ---- */

byte planned, logged;
byte planEnd[2];

/* --- transaction coordinator: the attempts' transactions ------------------------------------- */

#define FREE 0
#define LAUNCHED 1
#define OPEN 2         /* record and marker are flushed */
#define COMMITTED 3
#define ABORTED 4
byte state[SLOTS];
byte record[SLOTS];
bool reported[SLOTS];
byte visible[RECORDS];

/* --- decision topic --------------------------------------------------------------------------- */

byte decisions;              /* epochs decided */
byte decidedFrom[2];         /* where an epoch begins and ends, as it was planned */
byte decidedEnd[2];
byte entry[RECORDS] = NONE;  /* the slot that was decided for a record */
byte decider = NONE;         /* whose producer of the decision id has the current epoch */
byte deciding = NONE;        /* whose decision transaction is open */

/* --- what reaches a driver: driver * RECORDS + record ------------------------------------------ */

bool wants[4];               /* a result is wanted */
byte prepared[4] = NONE;     /* the slot that was reported */
byte launches[2];
byte timeouts;
bool claimed;

#define OF(slot) (slot < FIRST -> 0 : 1)     /* the driver that launched a slot */
#define AT(driver, rec) (driver * RECORDS + rec)

#ifdef SLOW_DECISION
#define TIMELY true
#else
/* A decision's timeout is shorter than what its clock check left to the writers' transactions. */
#define TIMELY (deciding == NONE)
#endif

/* An attempt in its executor, and what the coordinator does with its transaction. */
proctype Attempt(byte slot) {
end:
  do
  :: atomic { state[slot] == LAUNCHED -> state[slot] = OPEN }
  :: atomic { state[slot] == OPEN && !reported[slot] ->
       reported[slot] = true;
       if
       :: wants[AT(OF(slot), record[slot])] && prepared[AT(OF(slot), record[slot])] == NONE ->
          prepared[AT(OF(slot), record[slot])] = slot
       :: else
       fi }
  :: atomic { state[slot] == OPEN && timeouts < TIMEOUTS && TIMELY ->
       timeouts++; state[slot] = ABORTED }
#ifdef PLAIN_CLOSE
  :: atomic { state[slot] == OPEN && reported[slot] -> state[slot] = ABORTED }
#endif
  od
}

proctype DecisionTimeout() {
end:
  do
  :: atomic { deciding != NONE -> deciding = NONE; decider = NONE }
  od
}

/* EndTxn by producer id and epoch: a repeat changes nothing, and an aborted one stays aborted. */
inline rollForward(slot) {
  if
  :: state[slot] == OPEN ->
     state[slot] = COMMITTED;
     visible[record[slot]]++;
     assert(visible[record[slot]] <= 1)
  :: else
  fi
}

/* Ends a transaction by its id; an id that was not initialised yet is not reached. */
inline end(slot) {
  if
  :: state[slot] == OPEN -> state[slot] = ABORTED
  :: else
  fi
}

#ifdef NO_RUN_NUMBER
#define ENDS(slot) true
#else
#define ENDS(slot) (OF(slot) <= me)
#endif

/* Transactions of this and former runs that no decision names. */
inline endOthers() {
  slot = 0;
  do
  :: atomic { slot < SLOTS ->
       if
       :: ENDS(slot) && own[0] != slot && own[1] != slot -> end(slot)
       :: else
       fi;
       slot++ }
  :: atomic { else -> slot = 0; break }
  od
}

#ifdef NO_HEAL
#define LOST(rec) false
#elif defined(HEAL_UNSEEN)
/* What is not open counts as aborted, without a look for its marker. */
#define LOST(rec) (own[rec] != NONE && state[own[rec]] != OPEN)
#else
#define LOST(rec) (own[rec] != NONE && state[own[rec]] == ABORTED)
#endif

#define IN(rec) (rec < ownEnd[epoch] && (epoch == 0 || rec >= ownEnd[epoch - 1]))
#define NEEDS(rec) (IN(rec) && need[rec])
#define READY(rec) (!NEEDS(rec) || prepared[AT(me, rec)] != NONE)
#define STILL_OPEN(rec) (!NEEDS(rec) || state[prepared[AT(me, rec)]] == OPEN)

inline launch(rec) {
  slot = (me == 0 -> 0 : FIRST) + launches[me];
  launches[me]++;
  record[slot] = rec;
  state[slot] = LAUNCHED;
#ifdef REUSED_IDS
  /* The id is that of the other run's attempt of the same number: initialising it ends that. */
  slot = (me == 0 -> FIRST : 0) + launches[me] - 1;
  if :: slot < SLOTS -> end(slot) :: else fi;
#endif
  slot = 0
}

#define SETTLE(epoch) decidedEnd[epoch] = ownEnd[epoch]; decidedFrom[epoch] = (epoch == 0 -> 0 : ownEnd[epoch - 1])

inline decideFor(rec) {
  if :: NEEDS(rec) -> own[rec] = prepared[AT(me, rec)]; entry[rec] = own[rec] :: else fi
}

#define READ atomic { known = decisions; own[0] = entry[0]; own[1] = entry[1] }

proctype Driver(byte me) {
  byte epoch, known, ownPlanned, slot;
  byte unlogged = NONE;                                 /* an epoch that is decided and not logged */
  byte own[RECORDS] = NONE;                             /* the entries it has read or written */
  byte ownEnd[2];                                       /* of the epochs that it knows as planned */
  bool need[RECORDS];
  bool othersLeft;                                      /* lost attempts, to be ended later */

  atomic {
    if
    :: skip
    :: me == 1 -> planned = 0; logged = 0; planEnd[0] = 0; planEnd[1] = 0
    :: me == 1 && planned > 1 -> planned = 1; logged = 1; planEnd[1] = 0
    :: me == 1 && logged > 0 -> logged--
    :: me == 1 ->                                       /* another copy, with a plan of its own */
       planned = 1; logged = 0; planEnd[1] = 0;
       if :: planEnd[0] = 1 :: planEnd[0] = 2 fi
    fi
  };

  /* Spark reads its logs, and chooses what it will run. */
  atomic { epoch = logged; ownPlanned = planned; ownEnd[0] = planEnd[0]; ownEnd[1] = planEnd[1] };

#ifdef READ_FIRST
  READ;
#endif
#ifndef NO_DECISION_FENCE
  /* Initialise the decision id, and claim the next run number with it: the order of one is that of
   * the other, since a fenced producer can claim nothing. The first driver is who did it first. */
  atomic { me == 0 || claimed -> decider = me; deciding = NONE; claimed = true };
#else
  atomic { me == 0 || claimed -> claimed = true };
#endif
#ifndef READ_FIRST
  READ;                                                 /* the decision topic, to its end */
#endif

  atomic {                                              /* the connector reads them again */
    if
    :: logged > known -> goto stopped                   /* an entry is missing */
#ifndef NO_NEWER_CHECK
    :: known > planned -> goto stopped                  /* the checkpoint is older */
#endif
#ifndef NO_HASH
    /* Another plan than the one decided. Its end alone would not do: two copies of a checkpoint
     * that a driver and a restore have mixed may agree in it. */
    :: known == 1 && planned > 0 && decidedEnd[0] != planEnd[0] -> goto stopped
    :: known == 2 && planned > 1 &&
       (decidedEnd[1] != planEnd[1] || decidedFrom[1] != planEnd[0]) -> goto stopped
#endif
    :: else -> unlogged = (known > logged -> known - 1 : NONE)
    fi
  };
  atomic { if :: own[0] != NONE -> rollForward(own[0]) :: else fi };
  atomic { if :: own[1] != NONE -> rollForward(own[1]) :: else fi };
  endOthers();

  do
  :: atomic { epoch > 0 && ownEnd[epoch - 1] == RECORDS -> break }
  :: atomic { else ->
       if
       :: epoch < ownPlanned -> skip                    /* Spark runs a planned epoch again */
       :: epoch == ownPlanned && planned == epoch ->
          if
          :: (epoch == 0) -> ownEnd[epoch] = 1
          :: ownEnd[epoch] = 2
          fi;
          planEnd[epoch] = ownEnd[epoch]; planned++; ownPlanned++
       :: epoch == ownPlanned && planned != epoch -> goto stopped   /* another driver's log */
       fi };
again:
     atomic {
       if
       :: known <= epoch -> need[0] = true; need[1] = true
       :: known > epoch && unlogged != epoch ->
#ifdef NO_TAKEN_CHECK
          need[0] = true; need[1] = true
#else
          /* Decided after Spark had chosen it, by a driver that was not fenced yet. */
          goto stopped
#endif
       :: else ->
          need[0] = IN(0) && LOST(0); need[1] = IN(1) && LOST(1);
          /* Heal only what a timeout has ended; stop if it is not the same output again. */
          assert(timeouts > 0 || (!NEEDS(0) && !NEEDS(1)));
          if
          :: NEEDS(0) || NEEDS(1) -> goto stopped
          :: skip
          fi
       fi;
       if
       :: !NEEDS(0) && !NEEDS(1) -> goto done
       :: else
       fi;
       skip
     };
#ifndef ENDS_LATE
     if
     :: othersLeft -> endOthers(); othersLeft = false
     :: else
     fi;
#endif
     atomic {
       wants[AT(me, 0)] = NEEDS(0); wants[AT(me, 1)] = NEEDS(1);
       prepared[AT(me, 0)] = NONE; prepared[AT(me, 1)] = NONE
     };
     do
     :: atomic { READY(0) && READY(1) -> wants[AT(me, 0)] = false; wants[AT(me, 1)] = false; break }
     :: atomic { NEEDS(0) && wants[AT(me, 0)] && launches[me] < (me == 0 -> FIRST : SECOND) ->
          launch(0) }
     :: atomic { NEEDS(1) && wants[AT(me, 1)] && launches[me] < (me == 0 -> FIRST : SECOND) ->
          launch(1) }
     od;

     atomic {                                           /* begin the decision's transaction */
       if
#ifndef NO_DECISION_FENCE
       :: decider != me -> goto stopped
#endif
       :: else -> deciding = me
       fi
     };
#ifndef NO_CHECK
     atomic {                                           /* describeTransactions, and the clock */
       if
       :: !STILL_OPEN(0) || !STILL_OPEN(1) -> goto stopped
       :: else
       fi
     };
#endif
#ifdef ENDS_LATE
     if
     :: othersLeft -> endOthers(); othersLeft = false
     :: else
     fi;
#endif
     atomic {                                           /* commit it */
       if
#ifndef NO_DECISION_FENCE
       :: decider != me || deciding != me -> goto stopped
#endif
       :: else ->
          assert(STILL_OPEN(0) && STILL_OPEN(1));
          decideFor(0); decideFor(1);
          if :: known <= epoch -> decisions = epoch + 1; SETTLE(epoch) :: else fi;
          known = epoch + 1; unlogged = epoch; deciding = NONE
       fi;
       if
       :: skip
#ifdef ABORT_AFTER_DECISION
       :: goto aborting                                 /* no answer: taken for a failure */
#else
       :: goto stopped
#endif
       fi
     };
     atomic { if :: IN(0) -> rollForward(own[0]) :: else fi };
     atomic { if :: IN(1) -> rollForward(own[1]) :: else fi };
     if                                                 /* beside what follows */
     :: endOthers()
     :: othersLeft = true
     fi;
     goto again;
done:
     atomic {                                           /* Spark's commit log */
       if
       :: logged == epoch -> logged++
       :: else -> goto stopped
       fi;
       assert(!IN(0) || visible[0] == 1);
       assert(!IN(1) || visible[1] == 1);
       epoch++
     }
  od;
  assert(visible[0] == 1 && visible[1] == 1);
  goto stopped;

#ifdef ABORT_AFTER_DECISION
aborting:
  atomic { if :: prepared[AT(me, 0)] != NONE -> end(prepared[AT(me, 0)]) :: else fi };
  atomic { if :: prepared[AT(me, 1)] != NONE -> end(prepared[AT(me, 1)]) :: else fi };
#endif
stopped:
  atomic {
    epoch = 0; known = 0; unlogged = NONE; ownPlanned = 0; ownEnd[0] = 0; ownEnd[1] = 0; slot = 0; own[0] = NONE; own[1] = NONE; need[0] = false; need[1] = false;
    wants[AT(me, 0)] = false; wants[AT(me, 1)] = false;
    prepared[AT(me, 0)] = NONE; prepared[AT(me, 1)] = NONE
  }
}

init {
  byte i;
  atomic {
    do
    :: i < SLOTS -> run Attempt(i); i++
    :: else -> i = 0; break
    od;
    run DecisionTimeout();
    run Driver(0); run Driver(1)
  }
}
