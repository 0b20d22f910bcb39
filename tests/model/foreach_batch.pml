/*
 * Writes inside foreachBatch: each name of a write has decisions of its own. A and C are two names
 * for the same rows, B is another write beside either. Two batches, in runs that may overlap; each
 * run has another function, which lets the errors of its writes through or swallows them.
 *
 * A write's transactions open in one step and are decided on in one step: epoch_scope.pml has what
 * is between. Every other request and file is one atomic step; between two steps of a process
 * anything else may happen. A dead driver is one that takes no further step: the next one can
 * always start. An error that stops a query is always allowed, a wrong result never.
 *
 * A macro takes a rule out; run.py knows which ones and what must then be found.
 */

#ifndef RUNS
#define RUNS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1     /* decided transactions that time out: the next start comes late */
#endif
#define BATCHES 2      /* numbered from 1 */
#define NAMES 3
#define A 0
#define B 1
#define C 2
#define NONE 15

/* --- Spark's commit log, and the checkpoint's files of ours -------------------------------------- */

byte logged;
bool kept[NAMES];            /* the names that the checkpoint knows */

/* --- transaction coordinator: transactions of writers -------------------------------------------- */

#define FREE 0
#define OPEN 1
#define COMMITTED 2
#define ABORTED 3
/* A write has two writers, B's one. A run's writer has one transactional id for all batches. */
#define SLOT(r, name, batch, writer) ((((r) * NAMES + (name)) * BATCHES + (batch) - 1) * 2 + (writer))
byte state[RUNS * NAMES * BATCHES * 2];
#define WRITERS(name) (name == B -> 1 : 2)
#define SEEN(batch, name, writer) ((((batch) - 1) * 2 + (name == B -> 1 : 0)) * 2 + (writer))
byte visible[BATCHES * 4];

/* --- decision topic ------------------------------------------------------------------------------- */

byte holder = NONE;          /* whose producer of the query's own decision id is the current one */
byte decider[NAMES] = NONE;  /* of each name's decision id */
byte claims[NAMES];
byte number[RUNS * NAMES];   /* the number that a run has claimed with it */
byte decided[NAMES];         /* the batch of the last decision, */
byte before[NAMES];          /* of the one before, */
byte entry[NAMES * 2];       /* and whose transactions were decided on */

byte started;
byte timeouts;

#define IS_DECIDED(r, name, batch, writer) \
  (decided[name] == batch && entry[(name) * 2 + writer] == r)

/* The rules: */
#ifdef NO_SHARED_FENCE
#define FENCED false
#else
#define FENCED (holder != me)
#endif

#ifdef LOST_IS_PASSED_OVER
#define REFUSED_LOSS false
#else
#define REFUSED_LOSS (ownBatch[name] < epoch && (lost[name * 2] || lost[name * 2 + 1]))
#endif

#ifdef RENAMED
#define REFUSED_RENAME false
#else
#ifdef THIS_BATCH_ONLY
#define UNCALLED(x) (x != name && !called[x] && ownBatch[x] == epoch)
#define TAKEN(x) (x == name && ownBatch[x] > epoch)
#else
#define UNCALLED(x) (x != name && !called[x] && ownBatch[x] == epoch)
#define TAKEN(x) (ownBatch[x] > epoch)
#endif
#ifdef SIBLING_BY_NAME
#define SIBLING(x) (old[name] && ownBatch[name] > 0 && ownBatch[name] + 1 >= epoch)
#else
/* Both have written the batch before. */
#define SIBLING(x) (epoch > 1 && ownBatch[name] == epoch - 1 && ownBefore[x] == epoch - 1)
#endif
#define REFUSED_FOR(x) (TAKEN(x) || (UNCALLED(x) && !SIBLING(x)))
#define REFUSED_RENAME (REFUSED_FOR(A) || REFUSED_FOR(B) || REFUSED_FOR(C))
#endif

/* A transaction of this id is aborted by us. */
inline abort(r, n, batch, w) {
  if
  :: state[SLOT(r, n, batch, w)] == OPEN ->
     assert(!IS_DECIDED(r, n, batch, w));
     state[SLOT(r, n, batch, w)] = ABORTED
  :: else
  fi
}

inline commit(r, n, batch, w) {
  if
  :: state[SLOT(r, n, batch, w)] == OPEN ->
     assert(IS_DECIDED(r, n, batch, w));
     state[SLOT(r, n, batch, w)] = COMMITTED;
     visible[SEEN(batch, n, w)]++;
     assert(visible[SEEN(batch, n, w)] <= 1)
  :: else
  fi
}

/* EndTxn of a writer that was decided on, and the look for its presence record. */
inline rollForward(n, w) {
#ifdef END_BY_ID
  /* Whatever is open under the id. */
  if
  :: ownBatch[n] < BATCHES && state[SLOT(ownEntry[n * 2 + w], n, BATCHES, w)] == OPEN ->
     commit(ownEntry[n * 2 + w], n, BATCHES, w)
  :: else
  fi;
#endif
#ifdef HEAL_UNSEEN
  lost[n * 2 + w] = state[SLOT(ownEntry[n * 2 + w], n, ownBatch[n], w)] != OPEN;
  commit(ownEntry[n * 2 + w], n, ownBatch[n], w)
#else
  commit(ownEntry[n * 2 + w], n, ownBatch[n], w);
  lost[n * 2 + w] = state[SLOT(ownEntry[n * 2 + w], n, ownBatch[n], w)] == ABORTED;
#endif
  assert(timeouts > 0 || !lost[n * 2 + w])
}

/* Other open transactions of former runs of this name. */
inline endOthers(n) {
  r = 0;
  do
  :: r < RUNS ->
     if
     :: number[r * NAMES + n] < number[me * NAMES + n] && number[r * NAMES + n] > 0 ->
        batch = 1;
        do
        :: batch <= BATCHES ->
           if
#ifdef SPARED_BY_ID
           :: ownBatch[n] > 0 && ownEntry[n * 2] == r -> skip
#endif
           :: else -> abort(r, n, batch, 0)
           fi;
           if
#ifdef SPARED_BY_ID
           :: ownBatch[n] > 0 && ownEntry[n * 2 + 1] == r -> skip
#endif
           :: else -> abort(r, n, batch, 1)
           fi;
           assert(state[SLOT(r, n, batch, 0)] != OPEN && state[SLOT(r, n, batch, 1)] != OPEN);
           batch++
        :: else -> break
        od
     :: else
     fi;
     r++
  :: else -> r = 0; batch = 0; break
  od
}

#ifdef LOGGED_IS_DONE
#define ROLLS(n) (ownBatch[n] > logged)
#else
#define ROLLS(n) (ownBatch[n] > 0)
#endif

/* Fence the former driver, read the name's last decision, claim a number; then settle. */
inline settle(n) {
  atomic {
    decider[n] = me; claims[n]++; number[me * NAMES + n] = claims[n];
    ownBatch[n] = decided[n]; ownBefore[n] = before[n];
    ownEntry[n * 2] = entry[n * 2]; ownEntry[n * 2 + 1] = entry[n * 2 + 1];
    opened[n] = true
  };
  if
  :: atomic { ROLLS(n) -> rollForward(n, 0) };
     if
     :: atomic { n != B -> rollForward(n, 1) }
     :: else
     fi
  :: else
  fi;
  atomic { endOthers(n) }
}

proctype Timeout() {
  byte n, w;
end:
  do
  :: atomic { timeouts < TIMEOUTS ->
       if :: n = A :: n = B :: n = C fi;
       if :: w = 0 :: w = 1 fi;
       if
       :: decided[n] > 0 && state[SLOT(entry[n * 2 + w], n, decided[n], w)] == OPEN ->
          state[SLOT(entry[n * 2 + w], n, decided[n], w)] = ABORTED; timeouts++
       :: else
       fi;
       n = 0; w = 0 }
  od
}

#define NOT_HALF(n) \
  (!old[n] || decided[n] == 0 || \
   (state[SLOT(entry[n * 2], n, decided[n], 0)] != OPEN && \
    (n == B || state[SLOT(entry[n * 2 + 1], n, decided[n], 1)] != OPEN)))

/* What is replaced by another decision can never be looked after again. */
#define DONE_WITH(n) \
  (decided[n] == 0 || decided[n] == epoch || \
   (state[SLOT(entry[n * 2], n, decided[n], 0)] == COMMITTED && \
    (n == B || state[SLOT(entry[n * 2 + 1], n, decided[n], 1)] == COMMITTED)))

proctype Driver(byte me) {
  byte epoch, name, position, r, batch;
  byte first = NONE, second = NONE;      /* the function's writes */
  bool fallback;                         /* the second one only if the first has failed */
  bool flag;                             /* no write in the run's first batch */
  bool error;
  byte unsettled = NONE;                 /* decided on, or unclear, and not known to be committed */
  bool old[NAMES], opened[NAMES], called[NAMES], finished[NAMES], need[2];
  byte ownBatch[NAMES], ownBefore[NAMES], ownEntry[NAMES * 2];
  bool lost[NAMES * 2];

  atomic {                               /* Spark reads its logs, and chooses the batch */
    logged < BATCHES -> epoch = logged + 1;
    if
    :: first = A
    :: first = C
#ifndef ONE_WRITE
    :: first = A; second = B
    :: first = B; second = A
    :: first = C; second = B
#endif
#ifndef NO_FALLBACK
    :: first = A; second = C; fallback = true
#endif
    fi;
    if :: flag = true :: skip fi
  };
  /* Runs are numbered in the order in which they do this. */
  atomic { started == me -> started++; holder = me };
  atomic { old[A] = kept[A]; old[B] = kept[B]; old[C] = kept[C] };
#ifndef ONLY_WHAT_IS_CALLED
  if :: old[A] -> settle(A) :: else fi;
  if :: old[B] -> settle(B) :: else fi;
  if :: old[C] -> settle(C) :: else fi;
#endif
#ifndef FENCED_LATE
  atomic { if :: FENCED -> goto stopped :: else fi };
#endif

  do
  :: atomic { epoch > BATCHES -> break }
  :: atomic { else -> position = (flag -> 2 : 0); flag = false; error = false;
       called[A] = false; called[B] = false; called[C] = false; finished[A] = false; finished[B] = false; finished[C] = false };
     do
     :: atomic { position == 2 || (position == 1 && (second == NONE || (fallback && !error))) ->
          break }
     :: atomic { else -> name = (position == 0 -> first : second); position++ };

        atomic {
          if
#ifdef ANOTHER_AFTER_UNSETTLED
          :: unsettled == name -> goto failed
#else
          :: unsettled != NONE -> goto failed
#endif
          :: else
          fi
        };
        if
        :: atomic { !opened[name] -> skip };
           settle(name);
           atomic { kept[name] = true };
           atomic {                      /* with the query's own decision id: is this run fenced? */
             if :: FENCED -> goto failed :: else fi
           }
        :: else
        fi;

        atomic {                         /* begin */
          /* Unless a later run has begun, and is about to settle or to write it itself. */
          assert(holder != me || (NOT_HALF(A) && NOT_HALF(B) && NOT_HALF(C)));
          called[name] = true;
          if
          :: REFUSED_LOSS || REFUSED_RENAME || ownBatch[name] > epoch || finished[name] ->
             goto failed
          :: else
          fi;
          if
          :: ownBatch[name] == epoch ->
             need[0] = lost[name * 2]; need[1] = lost[name * 2 + 1];
             if
             :: !need[0] && !need[1] -> goto succeeded
             :: need[0] || need[1] ->
#ifndef AFTER_A_FAILED_REPAIR
                unsettled = name;        /* until it is repaired */
#endif
                if
                :: skip
                :: goto failed           /* its rows are others now */
                fi
             fi
          :: else -> need[0] = true; need[1] = name != B
          fi
        };
        atomic {                         /* write: to initialise an id ends what is open under it */
          if :: epoch > 1 -> abort(me, name, 1, 0); abort(me, name, 1, 1) :: else fi;
          if :: need[0] -> state[SLOT(me, name, epoch, 0)] = OPEN :: else fi;
          if :: need[1] -> state[SLOT(me, name, epoch, 1)] = OPEN :: else fi
        };
        atomic {                         /* decide */
          if
          :: decider[name] != me ||
             (need[0] && state[SLOT(me, name, epoch, 0)] != OPEN) ||
             (need[1] && state[SLOT(me, name, epoch, 1)] != OPEN) -> goto undecided
          :: else
          fi;
          if
          :: goto undecided              /* a task has failed, or the decision was not sent */
          :: skip ->
             assert(DONE_WITH(name));
             if
             :: decided[name] != epoch -> before[name] = decided[name]; decided[name] = epoch
             :: else
             fi;
             ownBatch[name] = epoch; ownBefore[name] = before[name];
             if :: need[0] -> entry[name * 2] = me; ownEntry[name * 2] = me :: else fi;
             if :: need[1] -> entry[name * 2 + 1] = me; ownEntry[name * 2 + 1] = me :: else fi;
             lost[name * 2] = false; lost[name * 2 + 1] = false;
             unsettled = name
          fi;
          if
          :: skip
          :: goto failed                 /* unclear, or no coordinator answers */
          fi
        };
        atomic { rollForward(name, 0) };
        atomic {
          if :: goto failed :: skip fi;
          if :: name != B -> rollForward(name, 1) :: else fi;
          if :: lost[name * 2] || lost[name * 2 + 1] -> goto failed :: else fi;
          unsettled = NONE
        };
        goto succeeded;

undecided:
        atomic { abort(me, name, epoch, 0); abort(me, name, epoch, 1) };
failed:
        atomic { need[0] = false; need[1] = false;
          error = true;
          if
          :: skip                        /* swallowed */
          :: !(fallback && position == 1) -> goto stopped
          fi };
        goto next;
succeeded:
        atomic { need[0] = false; need[1] = false;
          assert(visible[SEEN(epoch, name, 0)] == 1 && (name == B || visible[SEEN(epoch, name, 1)] == 1));
          finished[name] = true };
next:   skip
     od;
     atomic {                            /* the function returns: Spark's commit log */
       if
       :: logged == epoch - 1 -> logged++; epoch++
       :: else -> goto stopped
       fi
     }
  od;
stopped:
  atomic {
    epoch = 0; name = 0; position = 0; r = 0; batch = 0; first = NONE; second = NONE; fallback = false;
    flag = false; error = false; unsettled = NONE; need[0] = false; need[1] = false;
    do
    :: r < NAMES ->
       old[r] = false; opened[r] = false; called[r] = false; finished[r] = false; ownBatch[r] = 0; ownBefore[r] = 0;
       ownEntry[r * 2] = 0; ownEntry[r * 2 + 1] = 0; lost[r * 2] = false; lost[r * 2 + 1] = false;
       r++
    :: else -> r = 0; break
    od
  }
}

init {
  byte i;
  atomic {
    do
    :: i < RUNS -> run Driver(i); i++
    :: else -> i = 0; break
    od;
    run Timeout()
  }
}
