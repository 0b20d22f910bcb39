/*
 * Task scope as a model: two drivers of one query (the second starts while the first may be paused
 * or dead), executors that run attempts of one slot, the group coordinator, the transaction
 * coordinator and the output log.
 *
 * Every request to a broker is one atomic step; between two steps anything else may happen, which
 * is how a pause, a zombie and a late message look from the broker. A crash is a process that
 * takes no further step. An EndTxn is three: prepare, then the two markers in either order.
 *
 * With -DNO_INIT, -DNO_STABLE_FETCH, -DOFFSETS_APART, -DNO_FENCE, -DJOIN_LAST,
 * -DPLAIN_FETCH_AT_START, -DANY_ATTEMPT_GOES_ON or -DNO_RESTING_CHECK a rule is out.
 *
 * Not part of `make model` yet: the state space is too large to search whole.
 *
 *   spin -a task_scope.pml && cc -O2 -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c && ./pan -m100000
 */

#define RECORDS 2      /* input records, one to a batch */
#define DRIVERS 2
#define ATTEMPTS 4     /* attempts of all tasks of all drivers together */

#define NONE 255

/* --- brokers ------------------------------------------------------------------------------- */

byte offset = 0;             /* the group's committed offset */
byte pendingOffset = NONE;   /* of an open or prepared transaction */
byte member = NONE;          /* the driver whose fence the group coordinator takes */

byte epoch = 0;              /* of the slot's transactional id */
bool ongoing = false;        /* a transaction is open */
bool prepared = false;       /* EndTxn(commit) was taken; markers are on their way */
bool markOutput = false;     /* the marker still to be written to the output */
bool markOffset = false;     /* the marker still to be written to the group's offsets */
byte written[RECORDS];       /* how often each record's output is in the open transaction */
byte visible[RECORDS];       /* how often a read_committed reader sees it */

/* --- Spark's log: the checkpoint ------------------------------------------------------------ */

byte loggedEnd = 0;          /* end of the last batch that was planned */

/* --- an executor's memory: the producer that rests ------------------------------------------ */

byte restingEpoch = NONE;
byte restingOffset = NONE;

/* --- results that reach a driver ------------------------------------------------------------ */

byte taskDone[DRIVERS];      /* the end that a task of this driver has reported */

byte launched = 0;
bool finished[DRIVERS];

inline clearTransaction() {
  ongoing = false;
  pendingOffset = NONE;
  written[0] = 0; written[1] = 0
}

/* InitProducerId: waits for a prepared transaction to complete, aborts an open one. */
inline initTransactions(mine) {
  atomic {
    !prepared;
    clearTransaction();
    epoch++;
    mine = epoch
  }
}

/* The broker writes the markers of a prepared transaction. */
active proctype Markers() {
end:
  do
  :: atomic { prepared && markOutput ->
       visible[0] = visible[0] + written[0]; visible[1] = visible[1] + written[1];
       assert(visible[0] <= 1 && visible[1] <= 1);      /* nothing is doubled */
       markOutput = false }
  :: atomic { prepared && markOffset ->
       if :: pendingOffset != NONE -> offset = pendingOffset :: else fi;
       pendingOffset = NONE;
       markOffset = false }
  :: atomic { prepared && !markOutput && !markOffset ->
       clearTransaction(); prepared = false }
  od
}

/* --- a task attempt ------------------------------------------------------------------------- */

proctype Attempt(byte driver; byte planned; byte until; bool goesOn) {
  byte at = NONE, mine = NONE, i, reported = NONE;

  /* the producer that rests is taken, then compared: nobody else can use it any more */
  if
#ifdef NO_RESTING_CHECK
  :: atomic { goesOn && restingEpoch != NONE ->
       mine = restingEpoch; at = planned; restingEpoch = NONE }
#else
  :: atomic { goesOn && restingEpoch != NONE && restingOffset == planned ->
       mine = restingEpoch; at = planned; restingEpoch = NONE }
#endif
  :: else ->
     at = offset;                                  /* plain fetch */
     if :: at >= until -> goto report :: else fi;
#ifdef NO_INIT
     mine = epoch;
#else
     initTransactions(mine);
#endif
#ifndef NO_STABLE_FETCH
     atomic { pendingOffset == NONE -> at = offset };
     if :: at >= until -> goto report :: else fi
#endif
  fi;

  i = at;
  do
  :: i < until ->
     atomic {                                      /* Produce */
       if
       :: mine != epoch || prepared -> goto failed
       :: else -> ongoing = true; written[i]++; i++
       fi
     }
  :: else -> break
  od;

#ifdef OFFSETS_APART
  /* records first, the offset after them and outside */
#else
  atomic {                                         /* TxnOffsetCommit */
    if
    :: mine != epoch || prepared -> goto failed
#ifdef NO_FENCE
    :: else -> ongoing = true; pendingOffset = until
#else
    :: mine == epoch && !prepared && member == driver -> ongoing = true; pendingOffset = until
    :: mine == epoch && !prepared && member != driver -> clearTransaction(); goto failed
#endif
    fi
  };
#endif

  atomic {                                         /* EndTxn */
    if
    :: mine != epoch || prepared -> goto failed
    :: else -> prepared = true; markOutput = true; markOffset = true
    fi
  };
#ifdef OFFSETS_APART
  atomic { if :: member == driver -> offset = until :: else -> goto failed fi };
#endif
  if
  :: skip                                          /* the reply arrives */
  :: goto failed                                   /* it is lost: the producer is not used again */
  fi;
  atomic { !prepared -> restingEpoch = mine; restingOffset = until };

report:
  /* the result reaches its driver, or the executor dies first */
  if
  :: taskDone[driver] = until
  :: skip
  fi;
failed:
  skip
}

/* --- a driver ------------------------------------------------------------------------------- */

proctype Driver(byte me) {
  byte position = NONE, until = NONE, ignored, tries, owner = false;

#ifdef JOIN_LAST
  initTransactions(ignored);                       /* end what former runs left */
  atomic { pendingOffset == NONE -> position = offset };
  member = me;
#else
  member = me;                                     /* join: take the instance id over */
  initTransactions(ignored);                       /* end what former runs left */
#ifdef PLAIN_FETCH_AT_START
  position = offset;
#else
  atomic { pendingOffset == NONE -> position = offset };
#endif
#endif

  do
  :: position >= RECORDS && loggedEnd <= position -> break
  :: else ->
     if :: member != me -> goto fenced :: else fi; /* the poll between batches */
     if
     :: loggedEnd > position -> until = loggedEnd  /* Spark plans its logged batch again */
     :: else -> until = position + 1; loggedEnd = until
     fi;
     taskDone[me] = 0;
     tries = 0;
     do
     :: taskDone[me] >= until -> break
     :: atomic { taskDone[me] < until && launched < ATTEMPTS ->
          launched++;
#ifdef ANY_ATTEMPT_GOES_ON
          run Attempt(me, position, until, true)
#else
          run Attempt(me, position, until, tries == 0 && owner)
#endif
          ; tries++ }
     :: atomic { launched >= ATTEMPTS && taskDone[me] < until -> goto fenced }
     od;
     owner = true;
     position = until
  od;

  /* A query that has read everything has written everything, once. */
  atomic { !prepared -> assert(visible[0] == 1 && visible[1] == 1) };
fenced:
  finished[me] = true
}

init {
  atomic {
    run Driver(0);
    run Driver(1)      /* starts at any time: after a crash of the first, or beside it */
  }
}
