/*
 * Task scope: one input partition, whose records go through one transactional id at a time. Two
 * drivers of one query run, the second from any moment on (a restart, or a second driver beside a
 * paused one) and perhaps with another number of slots, so that the partition comes under another
 * transactional id. Three executors' cores run attempts; two of them are in one JVM.
 *
 * Every request to a broker is one atomic step. Between two steps of a process anything else may
 * happen, which is how a pause, a zombie and a late message look to the broker; a crash that
 * matters, since it frees the core and loses the JVM's memory, is a step of its own. Requests that
 * nobody could come between with an effect are one step: records alone are seen by no process, so
 * they go with the offsets; an EndTxn is its taking and the marker in the group's offsets.
 *
 * With PARTS a batch has both records, a task may commit the first one on the way and go on with the
 * same producer, and Spark logs the batch after it, as in real-time mode.
 *
 * With STRANGER a driver's session may end, and an application's consumer may join the group. The
 * broker refuses it while a driver is a member, since the driver's assignors have names of their own.
 * It commits any offset, without a stamp, and leaves. A driver that was expelled joins again. A batch
 * may have both records, and its task may end early, so that the group is behind Spark's log. Once
 * nobody is in the group, an operator may give it stamped offsets again (`eoskafka offsets adopt`).
 *
 * With DEPOSED the group's coordinator may be cut off from the other brokers, once, and another one
 * takes its place. The deposed one goes on to answer from what it had then: fetches of offsets, and
 * polls of a driver. It can accept nothing.
 *
 * Steps and code: see README.md. A macro NO_... and the like takes a rule out; run.py knows which
 * ones and what must then be found.
 */

#define RECORDS 2      /* in the partition; a new batch takes one */
#ifndef FIRST
#define FIRST 1        /* attempts of the first driver's tasks */
#endif
#ifndef SECOND
#define SECOND 3       /* of the second one's */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1     /* transactions that the coordinator ends by itself */
#endif
#ifndef CRASHES
#define CRASHES 1      /* executors that die; one that never goes on needs none */
#endif

#define DRIVERS 2
#define CORES 3
#define JVM(core) (core / 2)
#define IDS 2          /* transactional ids */
#define REST(jvm) (8 + jvm)
#define NONE 15

/* --- group coordinator ---------------------------------------------------------------------- */

byte offset;                 /* committed */
byte member = NONE;          /* the driver whose fence is taken; with STRANGER, that driver's join */
#ifdef STRANGER
#define APPLICATION 8        /* the member is the application's consumer */
#ifndef VISITS
#define VISITS 1             /* of the application */
#endif
#ifndef EXPULSIONS
#define EXPULSIONS 1
#endif
byte joins, visits, expulsions, adoptions;
byte fenceOf[DRIVERS];       /* the number of a driver's last join */
bool wasOut[DRIVERS];        /* it has not been a member all the time since */
bool unstamped;              /* the committed offset is the application's */
bool overtaken[IDS];         /* an offset in the transaction is older than the committed one */
#endif

#ifdef DEPOSED
bool isDeposed;
byte formerOffset;           /* what the deposed coordinator has in its memory */
byte formerMember = NONE;
bool formerPending;          /* a transaction was open over the offset, for ever there */
#define SHOWS_FORMER (isDeposed && !formerPending)
#endif

/* --- transaction coordinator and output, by transactional id -------------------------------- */

byte valid[IDS] = NONE;      /* whose producer has the current epoch: a core, or REST(jvm) */
bool ongoing[IDS];           /* has records or offsets, no EndTxn yet */
bool prepared[IDS];          /* EndTxn(commit) was taken; markers are on their way */
byte pending[IDS] = NONE;    /* the offset in the transaction */
byte holder[IDS] = NONE;     /* the driver of the attempt that put it there */
byte written[4];             /* id * RECORDS + record: how often in the open transaction */
byte visible[RECORDS];       /* how often a read_committed reader sees the record */

byte timeouts, crashes, launches[DRIVERS];

/* --- Spark's log ---------------------------------------------------------------------------- */

byte loggedEnd;              /* end of the last batch that was planned */
#ifdef STRANGER
byte doneEnd;                /* end of the last batch that Spark has logged as done */
#endif

/* --- memory of the two executor JVMs: the producer that rests, and its last commit ----------- */

byte restingId[2] = NONE;
byte restingOffset[2];

/* --- what a driver has given to a core, and what came back ---------------------------------- */

byte jobDriver[CORES] = NONE;
byte jobId[CORES];
byte jobPlanned[CORES];
byte jobUntil[CORES];
bool jobGoesOn[CORES];
#ifdef STRANGER
byte jobFence[CORES];
#define HAS_FENCE(core) (member == jobFence[core])
#else
#define HAS_FENCE(core) (member == jobDriver[core])
#endif

byte taskDone[DRIVERS];      /* the offset that a task of this driver has reported */
byte taskJvm[DRIVERS];       /* in which JVM its producer rests */

inline forget(id) {
  ongoing[id] = false; pending[id] = NONE; holder[id] = NONE;
#ifdef STRANGER
  overtaken[id] = false;
#endif
  written[id * RECORDS] = 0; written[id * RECORDS + 1] = 0
}

/* What has taken effect is just what the group says, wherever no commit is on its way. */
inline check() {
#ifdef STRANGER
  assert(visible[0] <= 1 && visible[1] <= 1);
#endif
#ifdef OFFSETS_APART
  assert(visible[0] <= 1 && visible[1] <= 1)
#else
  if
#ifdef STRANGER
  :: unstamped -> skip                                  /* nobody goes on from it */
  :: !unstamped && !prepared[0] && !prepared[1] ->
#else
  :: !prepared[0] && !prepared[1] ->
#endif
     assert(visible[0] == (offset > 0 -> 1 : 0));
     assert(visible[1] == (offset > 1 -> 1 : 0))
  :: else
  fi
#endif
}

/* InitProducerId: waits for a prepared transaction to complete, aborts an open one. An epoch is
 * only ever compared with the current one, so it is enough to know who has that. */
inline initTransactions(id, who) {
  atomic { !prepared[id] -> forget(id); valid[id] = who }
}

inline complete(id) {
#ifdef STRANGER
  if :: pending[id] != NONE && !overtaken[id] -> offset = pending[id]; unstamped = false :: else fi;
#else
  if :: pending[id] != NONE -> offset = pending[id] :: else fi;
#endif
  forget(id); prepared[id] = false; check()
}

proctype Coordinator() {
end:
  do
  :: atomic { prepared[0] -> complete(0) }
  :: atomic { prepared[1] -> complete(1) }
  :: atomic { ongoing[0] && !prepared[0] && timeouts < TIMEOUTS ->
       timeouts++; valid[0] = NONE; forget(0) }
  :: atomic { ongoing[1] && !prepared[1] && timeouts < TIMEOUTS ->
       timeouts++; valid[1] = NONE; forget(1) }
#ifdef DEPOSED
  :: atomic { !isDeposed ->
       isDeposed = true; formerOffset = offset; formerMember = member;
       formerPending = (pending[0] != NONE || pending[1] != NONE) }
#endif
#ifdef STRANGER
  :: atomic { member != NONE && member != APPLICATION && expulsions < EXPULSIONS ->
       expulsions++;
       if
       :: member == fenceOf[0] -> wasOut[0] = true
       :: else -> wasOut[1] = true
       fi;
       member = NONE }
#endif
  od
}

#ifdef STRANGER
/* --- a consumer of another application -------------------------------------------------------- */

#ifdef KAFKAS_NAMES
#define IS_LET_IN true
#else
#define IS_LET_IN (member == NONE)
#endif

proctype Application() {
end:
  do
  :: atomic { visits < VISITS && IS_LET_IN -> visits++; member = APPLICATION }
  :: atomic { member == APPLICATION ->
       if :: offset = 0 :: offset = 1 :: offset = 2 fi;
       unstamped = true;
       overtaken[0] = (pending[0] != NONE); overtaken[1] = (pending[1] != NONE) }
  :: atomic { member == APPLICATION -> member = NONE }
  od
}

/* --- an operator ------------------------------------------------------------------------------- */

proctype Operator() {
  byte to;

end:
  do
  :: atomic { adoptions == 0 && unstamped && member == NONE && pending[0] == NONE && pending[1] == NONE ->
       adoptions++;
       if
#if defined(ADOPT_ANY)
       :: to = offset
#elif defined(ADOPT_THE_LOGGED_END)
       :: offset == loggedEnd && doneEnd == loggedEnd -> to = offset
#endif
       :: to = visible[0] + visible[1]                  /* --at, after a look at the output */
       fi };
     atomic {
       if
       :: member == NONE -> offset = to; unstamped = false; check()
       :: else                                          /* the broker refuses it */
       fi;
       to = 0 }
  od
}
#endif

/* --- a task attempt ------------------------------------------------------------------------- */

#ifdef TRUST_THE_PLAN
#define FOLLOWS true
#else
#define FOLLOWS (restingOffset[JVM(me)] == jobPlanned[me])
#endif

#define MINE jobId[me]
#define OTHER (1 - jobId[me])

#if defined(NO_INIT)
#define STALE prepared[MINE]
#elif defined(SHARED_PRODUCER)
#define STALE ((valid[MINE] != me && valid[MINE] != REST(JVM(me))) || prepared[MINE])
#else
#define STALE (valid[MINE] != me || prepared[MINE])
#endif

#if defined(PARTS) || defined(STRANGER)
#define UNTIL to
#else
#define UNTIL jobUntil[me]
#endif

proctype Core(byte me) {
  byte at;
#ifdef DEPOSED
  bool isFetched;      /* the start is what a fetch has shown */
#endif
#if defined(PARTS) || defined(STRANGER)
  byte to;             /* the end of the transaction at work */
#endif

idle:
  atomic {
    jobDriver[me] != NONE ->
    /* The producer that rests is taken, then compared: nobody else can use it any more. */
    if
    :: restingId[JVM(me)] == MINE ->
       if :: valid[MINE] == REST(JVM(me)) -> valid[MINE] = me :: else fi;
       restingId[JVM(me)] = NONE;
       if
       :: jobGoesOn[me] && FOLLOWS ->
          at = jobPlanned[me]; restingOffset[JVM(me)] = 0;
          jobPlanned[me] = 0; jobGoesOn[me] = false;
          goto write
       :: else -> restingOffset[JVM(me)] = 0
       fi
    :: else
    fi;
    jobPlanned[me] = 0; jobGoesOn[me] = false
  };

  atomic {                                              /* plain fetch */
#if defined(STRANGER) && !defined(NO_STAMP_IN_TASK)
    if :: unstamped -> goto done :: else fi;
#endif
#ifdef DEPOSED
    if :: at = offset :: isDeposed -> at = formerOffset fi;
    isFetched = true;
#else
    at = offset;
#endif
#ifndef NO_SKIP
    if :: at >= jobUntil[me] -> goto report :: else fi
#endif
  };

#ifndef NO_INIT
  initTransactions(MINE, me);
#endif

#ifndef NO_STABLE_FETCH
#ifdef DEPOSED
  if
  :: atomic { SHOWS_FORMER -> at = formerOffset; goto write }
  :: skip
  fi;
#endif
  atomic {
    /* Nobody may have to wait out a transaction that a former driver's attempt left open. */
    assert(!(pending[OTHER] != NONE && ongoing[OTHER] && !prepared[OTHER] &&
             holder[OTHER] != jobDriver[me] && HAS_FENCE(me)));
    pending[0] == NONE && pending[1] == NONE ->
#if defined(STRANGER) && !defined(NO_STAMP_IN_TASK)
    if :: unstamped -> goto failed :: else fi;
#endif
    at = offset;
#ifndef NO_SKIP
    if :: at >= jobUntil[me] -> goto failed :: else fi    /* done; the producer is closed */
#endif
  };
#endif

write:
  atomic {                                              /* Produce and TxnOffsetCommit */
    if
    :: STALE -> goto failed
    :: else
    fi;
    ongoing[MINE] = true;
#if defined(PARTS) || defined(STRANGER)
    if :: to = jobUntil[me] :: at + 1 < jobUntil[me] -> to = at + 1 fi;
#endif
    if :: at <= 0 && UNTIL > 0 -> written[MINE * RECORDS]++ :: else fi;
    if :: at <= 1 && UNTIL > 1 -> written[MINE * RECORDS + 1]++ :: else fi;
    if :: crashes < CRASHES -> goto crash :: skip fi;
#ifndef OFFSETS_APART
#ifndef NO_FENCE
    if :: !HAS_FENCE(me) -> goto failed :: else fi;
#endif
#ifdef PLANNED_END_ON_THE_WAY
    pending[MINE] = jobUntil[me];
#else
    pending[MINE] = UNTIL;
#endif
    holder[MINE] = jobDriver[me]
#endif
  };

#if defined(DEPOSED) && !defined(BELIEVE_ANY_FETCH)
  atomic {                                              /* who has accepted the offsets is asked */
    if :: isFetched && offset != at -> goto failed :: else fi;
    isFetched = false
  };
#endif

  atomic {                                              /* EndTxn */
    if
    :: STALE -> goto failed
    :: !STALE ->
       prepared[MINE] = true;
       visible[0] = visible[0] + written[MINE * RECORDS];
       visible[1] = visible[1] + written[MINE * RECORDS + 1];
       if :: skip :: goto closed fi                     /* the reply is lost */
#ifdef UNCLEAR_IS_COMMITTED
    :: !STALE -> goto committed                         /* the request is lost */
#else
    :: !STALE -> goto closed
#endif
    fi
  };
#ifdef OFFSETS_APART
  atomic {
    if :: member == jobDriver[me] -> offset = jobUntil[me] :: else -> goto closed fi
  };
#endif
  atomic {                                              /* the reply comes */
    !prepared[MINE];
committed:
    at = UNTIL;
#ifdef STRANGER
    to = 0;
#endif
#ifdef PARTS
    if
    :: at < jobUntil[me] ->
       if :: crashes < CRASHES -> to = 0; goto crash :: skip fi;
       goto write
    :: else -> to = 0
    fi;
#endif
    restingId[JVM(me)] = MINE; restingOffset[JVM(me)] = at;
    if :: valid[MINE] == me -> valid[MINE] = REST(JVM(me)) :: else fi;
    if :: crashes < CRASHES -> goto crash :: skip fi
  };

report:
  atomic {
    if                                                  /* the result may not arrive */
    :: taskDone[jobDriver[me]] = at; taskJvm[jobDriver[me]] = JVM(me)
    :: skip
    fi;
    goto done
  };

crash:
  atomic {
    crashes++;
#if defined(PARTS) || defined(STRANGER)
    to = 0;
#endif
    restingId[JVM(me)] = NONE; restingOffset[JVM(me)] = 0;
    goto done
  };

failed:
  atomic {                                              /* AbortTxn; not after an EndTxn */
    if :: !STALE -> forget(MINE) :: else fi;
closed:
#if defined(PARTS) || defined(STRANGER)
    to = 0;
#endif
    if                                                  /* range found committed after all */
    :: at >= jobUntil[me] -> taskDone[jobDriver[me]] = at; taskJvm[jobDriver[me]] = NONE
    :: else
    fi
  };

done:
  atomic {
    at = 0;
#ifdef DEPOSED
    isFetched = false;
#endif
    if :: valid[MINE] == me -> valid[MINE] = NONE :: else fi;
    jobDriver[me] = NONE; jobId[me] = 0; jobPlanned[me] = 0; jobUntil[me] = 0;
    jobGoesOn[me] = false;
#ifdef STRANGER
    jobFence[me] = 0;
#endif
    goto idle
  }
}

/* --- a driver ------------------------------------------------------------------------------- */

inline launch(core) {
  launches[me]++;
  jobDriver[core] = me; jobPlanned[core] = position; jobUntil[core] = until;
#ifdef STRANGER
  jobFence[core] = fenceOf[me];
#endif
#ifdef SPLIT
  if :: jobId[core] = 0 :: jobId[core] = 1 fi;
#else
  jobId[core] = id;
#endif
#if defined(TRUST_THE_PLAN) || defined(SHARED_PRODUCER)
  jobGoesOn[core] = true;
#else
  jobGoesOn[core] = first && owner == JVM(core);
#endif
  first = false
}

#ifdef STRANGER
#define IS_OPEN (taskDone[me] <= position)
#else
#define IS_OPEN (taskDone[me] < until)
#endif

proctype Driver(byte me) {
  byte position, until, id, owner = NONE;
  bool first;

  if                                                    /* slots may have changed */
  :: me == 0
  :: me == 1 -> id = 0
  :: me == 1 -> id = 1
  fi;
#ifndef STRANGER
  if                                                    /* the checkpoint may be gone */
  :: me == 1 -> loggedEnd = 0
  :: skip
  fi;
#else
  atomic { if :: unstamped || member == APPLICATION -> goto fenced :: else fi };
join:
  atomic {
    if
    :: member == APPLICATION -> goto fenced             /* it came first; this one names it */
    :: else -> joins++; member = joins; fenceOf[me] = joins; wasOut[me] = false; wasOut[1 - me] = true
    fi
  };
#endif

#if !defined(JOIN_LAST) && !defined(STRANGER)
  member = me;                                          /* take the instance id over */
#endif
settle:
#ifndef NO_END_AT_START
  initTransactions(0, NONE);                            /* end what former runs left */
  initTransactions(1, NONE);
#endif
  atomic {                                              /* the stable fetch, or end them again */
#ifdef NO_END_AT_START
    position = offset
#else
    if
#ifdef DEPOSED
    :: SHOWS_FORMER -> position = formerOffset
#endif
#if defined(STRANGER) && !defined(BELIEVED)
    :: pending[0] == NONE && pending[1] == NONE && unstamped -> goto fenced
    :: pending[0] == NONE && pending[1] == NONE && !unstamped -> position = offset
#else
    :: pending[0] == NONE && pending[1] == NONE -> position = offset
#endif
    :: else -> goto settle
    fi
#endif
  };
#ifdef JOIN_LAST
  member = me;
#endif

  do
  :: atomic { position >= RECORDS && loggedEnd <= position -> break }
  :: atomic { else ->
#ifdef STRANGER
       if                                               /* the poll between batches */
       :: member == fenceOf[me] -> skip
       :: member == NONE -> goto join
       :: member == APPLICATION ->
          /* No driver is stopped as long as it is a member. */
          assert(wasOut[me]);
          goto fenced
       :: else -> goto fenced
       fi;
#else
       if                                               /* the poll between batches */
       :: member == me -> skip
#ifdef DEPOSED
       :: isDeposed && formerMember == me -> skip
#endif
       :: member != me -> goto fenced
       fi;
#endif
       if
       :: loggedEnd > position -> until = loggedEnd     /* Spark plans its logged batch again */
#ifdef STRANGER
       :: loggedEnd <= position && position == 0 -> until = RECORDS; loggedEnd = until
#endif
#ifdef PARTS
       :: else -> until = RECORDS
#else
       :: else -> until = position + 1; loggedEnd = until
#endif
       fi;
       taskDone[me] = 0; taskJvm[me] = NONE; first = true };
     do
#ifdef STRANGER
     :: atomic { taskDone[me] > position ->             /* all of the batch, or a part of it */
          position = taskDone[me];
          assert(visible[0] == 1 && (position < 2 || visible[1] == 1));
          doneEnd = until;
#else
     :: atomic { taskDone[me] >= until ->
          position = taskDone[me];
#endif
#ifdef PARTS
          loggedEnd = position;
#endif
          owner = taskJvm[me];
          taskDone[me] = 0; taskJvm[me] = NONE; until = 0; break }
     :: atomic { IS_OPEN && launches[me] < (me == 0 -> FIRST : SECOND) && jobDriver[0] == NONE -> launch(0) }
     :: atomic { IS_OPEN && launches[me] < (me == 0 -> FIRST : SECOND) && jobDriver[1] == NONE &&
                 jobDriver[0] != NONE -> launch(1) }  /* a core like core 0 */
     :: atomic { IS_OPEN && launches[me] < (me == 0 -> FIRST : SECOND) && jobDriver[2] == NONE -> launch(2) }
     od
  od;

  /* A query that has read everything has written everything, once. */
  atomic { !prepared[0] && !prepared[1] -> assert(visible[0] == 1 && visible[1] == 1) };
fenced:
  atomic { position = 0; until = 0; id = 0; owner = 0; first = false }
}

init {
  atomic {
    run Coordinator();
    run Core(0); run Core(1); run Core(2);
#ifdef STRANGER
    run Application(); run Operator();
#endif
    run Driver(0); run Driver(1)
  }
}
