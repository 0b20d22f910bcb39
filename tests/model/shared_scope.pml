/*
 * A shared group: two drivers, and one partition that goes from one to the other and back. Each
 * driver has a transactional id of its own for it. Two executors' cores run attempts of whichever
 * driver.
 *
 * The group coordinator makes a new generation whenever it likes: nothing moves, or a member is
 * expelled because it was paused for longer than its session, or the partition is to go to the other
 * member, whose owner then gives it up first. A driver hears of all that when its thread polls, which
 * is a step of its own.
 *
 * With STRANGER an application's consumer is let in, as with the consumer protocol. It is given the
 * partition, commits any offset, without a stamp, and leaves.
 *
 * Every request to a broker or to a driver is one atomic step, as in task_scope.pml, and the shape of
 * an attempt is the same; what that model shows of lost replies and crashes is not repeated here.
 */

#define RECORDS 2      /* in the partition; a new batch takes one */
#ifndef ATTEMPTS
#define ATTEMPTS 3     /* of each driver's tasks */
#endif
#ifndef GENERATIONS
#define GENERATIONS 3
#endif
#ifndef EXPULSIONS
#define EXPULSIONS 1
#endif

#define DRIVERS 2
#define CORES 2
#define OTHER (1 - me)
#define REST 8
#define NONE 15

/* --- group coordinator ---------------------------------------------------------------------- */

byte offset;                 /* committed */
byte generation = 1;
bool member[DRIVERS] = true;
byte assigned;               /* to whom the partition is assigned */
bool wanted;                 /* back from that one, for the other member */
byte expulsions;
#ifdef STRANGER
#define APPLICATION 2        /* the partition is assigned to the application */
byte visits;
bool isIn;                   /* the application is a member */
bool unstamped;              /* the committed offset is its own */
bool overtaken[DRIVERS];     /* an offset in the transaction is older than the committed one */
#define NEXT (isIn -> APPLICATION : OTHER)
#define IS_DRIVERS(who) (who != NONE && who != APPLICATION)
#define IS_OURS !unstamped
#else
#define NEXT OTHER
#define IS_DRIVERS(who) (who != NONE)
#define IS_OURS true
#endif

/* --- transaction coordinator and output, by driver ------------------------------------------- */

byte valid[DRIVERS] = NONE;  /* whose producer has the current epoch: a core, or REST */
bool ongoing[DRIVERS];
bool prepared[DRIVERS];
byte pending[DRIVERS] = NONE;
byte written[4];             /* driver * RECORDS + record */
byte visible[RECORDS];

/* --- the drivers' memory ---------------------------------------------------------------------- */

bool owns[DRIVERS];
byte term[DRIVERS];
byte known[DRIVERS] = 1;     /* the generation it has heard of */
bool ownershipLost[DRIVERS]; /* partitions were lost, not given up */
bool hearing[DRIVERS];       /* of a loss, and about to fence */
bool inUse[DRIVERS];         /* a batch is planned, and its task has not ended */
byte leases[DRIVERS];        /* attempts that may have the fence: a bit for each core */
byte plan[DRIVERS];          /* its number */
byte launches[DRIVERS];
byte taskDone[DRIVERS] = NONE;   /* what a task has reported: the offset that it reached */
byte resting[DRIVERS] = NONE;    /* what the producer that rests has committed last */

/* --- what a driver has given to a core --------------------------------------------------------- */

byte jobDriver[CORES] = NONE;
byte jobPlanned[CORES];
byte jobUntil[CORES];
byte jobTerm[CORES];
byte jobPlan[CORES];
bool jobFirst[CORES];

inline forget(id) {
  ongoing[id] = false; pending[id] = NONE;
#ifdef STRANGER
  overtaken[id] = false;
#endif
  written[id * RECORDS] = 0; written[id * RECORDS + 1] = 0
}

/* What has taken effect is just what the group says, wherever no commit is on its way. */
inline check() {
  assert(visible[0] <= 1 && visible[1] <= 1);
  if
  :: IS_OURS && !prepared[0] && !prepared[1] ->
     assert(visible[0] == (offset > 0 -> 1 : 0));
     assert(visible[1] == (offset > 1 -> 1 : 0))
  :: else
  fi
}

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

/* A generation takes in who is a member; a partition that nobody has goes to one of them. */
inline nextGeneration() {
  generation++;
  if
  :: IS_DRIVERS(assigned) && !member[assigned] -> assigned = NONE; wanted = false
  :: else
  fi;
  if
  :: assigned == NONE && member[0] -> assigned = 0
  :: assigned == NONE && member[1] -> assigned = 1
  :: else
  fi
}

proctype Coordinator() {
end:
  do
  :: atomic { prepared[0] -> complete(0) }
  :: atomic { prepared[1] -> complete(1) }
  :: atomic { generation < GENERATIONS -> nextGeneration() }
  :: atomic { generation < GENERATIONS && expulsions < EXPULSIONS && member[0] ->
       expulsions++; member[0] = false; nextGeneration() }
  :: atomic { generation < GENERATIONS && expulsions < EXPULSIONS && member[1] ->
       expulsions++; member[1] = false; nextGeneration() }
  :: atomic { generation < GENERATIONS && IS_DRIVERS(assigned) && !wanted && member[0] && member[1] ->
       wanted = true; generation++ }
#ifdef STRANGER
  :: atomic { visits == 0 && IS_DRIVERS(assigned) && !wanted ->
       visits++; isIn = true; wanted = true; generation++ }
  :: atomic { assigned == APPLICATION ->
       if :: offset = 0 :: offset = 1 :: offset = 2 fi;
       unstamped = true;
       overtaken[0] = (pending[0] != NONE); overtaken[1] = (pending[1] != NONE) }
  :: atomic { assigned == APPLICATION -> isIn = false; assigned = NONE; nextGeneration() }
#endif
  od
}

/* --- a driver's thread that polls --------------------------------------------------------------- */

proctype Member(byte me) {
  bool had;

end:
  do
  :: atomic { member[me] && (known[me] != generation || owns[me] != (assigned == me)) ->
       known[me] = generation;
       if
       :: assigned == me && !owns[me] -> owns[me] = true; term[me]++
       :: else
       fi }
  :: atomic { member[me] && owns[me] && assigned == me && wanted &&
#ifdef NO_REVOCATION_WAIT
       true ->
#else
       !inUse[me] ->                                    /* its tasks have ended */
#endif
       known[me] = generation;
       owns[me] = false; assigned = NEXT; wanted = false; generation++ }
#ifndef NO_REVOCATION_WAIT
  :: atomic { member[me] && owns[me] && assigned == me && wanted && inUse[me] ->
       owns[me] = false; ownershipLost[me] = true; hearing[me] = true;
       had = leases[me] != 0 };
     /* A task takes too long; the partition is given up when its producer is fenced. */
     if :: had -> initTransactions(me, NONE) :: else fi;
     atomic {
       had = false; hearing[me] = false;
       if
       :: member[me] && assigned == me && wanted ->
          known[me] = generation; assigned = NEXT; wanted = false; generation++
       :: else
       fi }
#endif
  :: atomic { !member[me] ->                            /* it hears that it was expelled */
       owns[me] = false; ownershipLost[me] = true; hearing[me] = true;
       had = leases[me] != 0 };
#ifndef NO_FENCE_WHEN_LOST
     if :: had -> initTransactions(me, NONE) :: else fi;
#endif
     atomic { had = false; hearing[me] = false; member[me] = true; nextGeneration(); known[me] = generation }
  od
}

/* --- a task attempt ---------------------------------------------------------------------------- */

#define MINE jobDriver[me]
#define STALE (valid[MINE] != me || prepared[MINE])

/* A task whose producer was refused goes past it, by that one's own id and epoch. */
#ifdef WHOEVER_HAS_THE_ID
#define GONE ((!past && valid[MINE] != me) || prepared[MINE])
#else
#define GONE STALE
#endif

#ifdef NO_PLAN_NUMBER
#define SAME_PLAN true
#else
#define SAME_PLAN (inUse[MINE] && plan[MINE] == jobPlan[me])
#endif

/* The driver's answer: whether the partition stayed its own since it was planned. */
#if defined(LEASE_BY_PARTITION)
#define MAY_COMMIT (owns[MINE] && SAME_PLAN)
#elif defined(LEASE_UNCHECKED)
#define MAY_COMMIT true
#else
#define MAY_COMMIT (owns[MINE] && term[MINE] == jobTerm[me] && SAME_PLAN)
#endif

#ifdef NO_GENERATION
#define TAKEN true
#else
#define TAKEN (member[MINE] && fence == generation)
#endif

proctype Core(byte me) {
  byte at, fence;
  bool past;

idle:
  atomic {
    jobDriver[me] != NONE ->
    if
    :: jobFirst[me] && resting[MINE] == jobPlanned[me] && valid[MINE] == REST ->
       valid[MINE] = me; resting[MINE] = NONE; at = jobPlanned[me]; goto write
    :: else -> resting[MINE] = NONE
    fi
  };

  atomic {                                              /* plain fetch */
#if defined(STRANGER) && !defined(NO_STAMP_IN_TASK)
    if :: unstamped -> goto ended :: else fi;
#endif
    at = offset;
    if :: at >= jobUntil[me] -> goto report :: else fi
  };
  atomic { if :: !MAY_COMMIT -> goto ended :: else fi };

  initTransactions(MINE, me);

#ifndef NO_STABLE_FETCH
  atomic {
    pending[0] == NONE && pending[1] == NONE ->
#if defined(STRANGER) && !defined(NO_STAMP_IN_TASK)
    if :: unstamped -> goto failed :: else fi;
#endif
    at = offset;
    if :: at >= jobUntil[me] -> goto report :: else fi
  };
#endif

write:
  atomic {
    if :: STALE -> goto failed :: else fi;
    ongoing[MINE] = true;
    if :: at <= 0 && jobUntil[me] > 0 -> written[MINE * RECORDS]++ :: else fi;
    if :: at <= 1 && jobUntil[me] > 1 -> written[MINE * RECORDS + 1]++ :: else fi
  };

lease:
  atomic {
    if :: !MAY_COMMIT -> goto failed :: else fi;
    fence = known[MINE]; leases[MINE] = leases[MINE] | (1 << me)
  };

  atomic {                                              /* TxnOffsetCommit */
    if :: GONE -> goto failed :: else fi;
    if
    :: TAKEN -> pending[MINE] = jobUntil[me]; ongoing[MINE] = true
    :: !TAKEN && known[MINE] != fence ->                /* the next fence, the same transaction */
       past = true; goto lease
    :: !TAKEN -> goto failed
    fi
  };

  atomic {                                              /* EndTxn */
    if :: GONE -> goto failed :: else fi;
    prepared[MINE] = true;
    visible[0] = visible[0] + written[MINE * RECORDS];
    visible[1] = visible[1] + written[MINE * RECORDS + 1]
  };
  atomic {                                              /* the reply */
    !prepared[MINE];
    at = jobUntil[me]; resting[MINE] = at;
    if :: valid[MINE] == me && !past -> valid[MINE] = REST :: else fi
  };

report:
  atomic { taskDone[MINE] = at; goto ended };

failed:
  atomic { if :: !STALE -> forget(MINE) :: else fi };

ended:
  atomic {
    if
    :: SAME_PLAN ->
       leases[MINE] = leases[MINE] & (3 - (1 << me));
#ifdef ANY_END
       leases[MINE] = 0;
#endif
       if :: leases[MINE] == 0 -> inUse[MINE] = false :: else fi
    :: else
    fi;
    if :: taskDone[MINE] == NONE -> taskDone[MINE] = jobPlanned[me] :: else fi;
    if :: valid[MINE] == me -> valid[MINE] = NONE :: else fi;
    at = 0; fence = 0; past = false;
    jobDriver[me] = NONE; jobPlanned[me] = 0; jobUntil[me] = 0; jobTerm[me] = 0;
    jobPlan[me] = 0; jobFirst[me] = false;
    goto idle
  }
}

/* --- a driver's query --------------------------------------------------------------------------- */

inline launch(core) {
  launches[me]++;
  jobDriver[core] = me; jobPlanned[core] = position; jobUntil[core] = until;
  jobTerm[core] = settled; jobPlan[core] = plan[me]; jobFirst[core] = first;
  first = false
}

proctype Driver(byte me) {
  byte position, until, settled;
  bool first;

end:
  do
  :: atomic { IS_OURS && offset >= RECORDS && !prepared[0] && !prepared[1] -> break }

  /* between two batches: a partition that has come, in a term that is new */
  :: atomic { owns[me] && !inUse[me] && settled != term[me] -> until = term[me] };
again:
     if
     :: atomic { ownershipLost[me] -> ownershipLost[me] = false }; initTransactions(me, NONE)
     :: atomic { !ownershipLost[me] }
     fi;
#ifndef NO_END_GONE
     if
     :: atomic { !member[OTHER] }; initTransactions(OTHER, NONE)
     :: atomic { member[OTHER] }
     fi;
#endif
     if
#if defined(STRANGER) && !defined(BELIEVED)
     :: atomic { pending[0] == NONE && pending[1] == NONE && unstamped -> until = 0; goto stopped }
     :: atomic { pending[0] == NONE && pending[1] == NONE && !unstamped -> position = offset }
#else
     :: atomic { pending[0] == NONE && pending[1] == NONE -> position = offset }
#endif
     :: atomic { pending[OTHER] != NONE && !prepared[OTHER] && owns[me] && term[me] == until ->
#ifdef NO_END_GONE
          assert(member[OTHER])
#endif
          /* A member that has given it up has nothing open over it, unless it is yet to hear. */
          assert(!member[OTHER] || owns[OTHER] || hearing[OTHER]) };
        goto again
     :: atomic { !owns[me] || term[me] != until -> until = 0; goto out }
     fi;
     /* A start that is news is committed, on the thread that polls. */
     atomic {
       if
#ifdef START_BY_PARTITION
       :: member[me] && known[me] == generation && owns[me] -> offset = position; check()
#else
       :: member[me] && known[me] == generation && owns[me] && term[me] == until ->
          offset = position;
#ifdef STRANGER
          unstamped = false;
#endif
          check()
#endif
       :: true
       fi;
       settled = until; until = 0;
       if :: !owns[me] || term[me] != settled -> settled = 0 :: else fi };
out: skip

  /* a batch */
  :: atomic { owns[me] && settled == term[me] && position < RECORDS && !inUse[me] &&
              launches[me] < ATTEMPTS ->
       until = position + 1; taskDone[me] = NONE; inUse[me] = true; plan[me]++; first = true };
     do
     :: atomic { taskDone[me] != NONE ->                /* Spark kills other attempts, later */
          position = taskDone[me]; taskDone[me] = NONE; until = 0; plan[me]++ };
#ifndef NO_FENCE_AT_END
        if
        :: atomic { leases[me] != 0 -> resting[me] = NONE }; initTransactions(me, NONE)
        :: atomic { leases[me] == 0 }
        fi;
#endif
        atomic { inUse[me] = false; leases[me] = 0; break }
     :: atomic { taskDone[me] == NONE && launches[me] < ATTEMPTS && jobDriver[0] == NONE ->
          launch(0) }
     :: atomic { taskDone[me] == NONE && launches[me] < ATTEMPTS && jobDriver[1] == NONE ->
          launch(1) }
     od
  od;
  atomic { assert(visible[0] == 1 && visible[1] == 1) };
#ifdef STRANGER
stopped: skip                                           /* with EOSKAFKA_OFFSET_WITHOUT_STAMP */
#endif
}

init {
  atomic {
    run Coordinator();
    run Core(0); run Core(1);
    run Member(0); run Member(1);
    run Driver(0); run Driver(1)
  }
}
