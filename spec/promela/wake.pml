/* The protocol between an executor and all that wakes its coroutines from outside.
 *
 * spin: -a
 * gcc: -O2 -DNFAIR=4 -DVECTORSZ=512
 * pan: -a -f -m200000
 * pan: -noclaim -m200000
 * broken: -DLATE_CLEAR
 * broken: -DPUSH_FIRST
 * broken: -DNO_NOTIFY
 * broken: -DNO_ANCHOR
 * broken: -DRECLAIM_REFERENCED
 * broken: -DRETIRE_QUEUED
 * broken: -DANNOUNCE_CLOSED
 * broken: -DDRAIN_INBOX_ONLY
 *
 * One slot of the table, its owner, and OUTSIDERS threads (or interrupt handlers) that hold references to it: they wake,
 * cancel, clone and drop, in every order. The owner polls, parks, lets the coroutine exit, uses the slot for a second
 * coroutine, and may drop the executor between any two steps. Each labelled block below is one function of core/src, and
 * each `atomic` in it is one atomic operation there:
 *
 *   send, take, retire, close, acquire, release   signals.rs
 *   push_inbox, drain_inbox, unanchor, close      scheduler.rs
 *   wake_by_ref, release                          waker.rs
 *   step, poll                                    scheduler.rs
 *   park, notify                                  what a platform does with Config::notify
 *
 * Memory orders are not modelled: core/tests/loom.rs looks after those. Many coroutines are not either: the inbox is a
 * stack that is pushed by compare-and-swap and taken whole, so blocks in it do not touch each other.
 *
 * Checked for safety: a block is pushed at most once for each time that QUEUED is set; a coroutine is in the ready queue at
 * most once; the table is not touched after it is freed; it is freed exactly once; a slot is reclaimed exactly once and
 * never while it is referenced; a reference never wakes a stranger. Checked for liveness, under weak fairness: each wake is
 * followed by a poll, an exit or the end of the executor; a slot without references is reclaimed; a level that
 * was announced does not stay announced.
 *
 * The checks can fail: README.md says what each of the -D options above breaks, and what spin finds.
 */

#ifndef OUTSIDERS
#define OUTSIDERS 2
#endif
#define WAKES 2 /* how often each outsider wakes or cancels */

/* --- the block's word (signals.rs) --- */
bool WAKE, CANCEL, QUEUED, CLOSED, RETIRED;
byte references;

/* --- the scheduler --- */
byte inbox;             /* how often the block is in the inbox */
byte anchors = 1;       /* the executor's own */
bool freed;             /* the table */
bool arriving;          /* Published::arriving, one level */
bool notified;          /* the platform's token, as of thread::unpark */

/* --- the owner's own state, and what the properties talk about --- */
mtype = { Free, Ready, Running, Blocked, Exited };
mtype state = Free;
byte life;              /* which coroutine lives in the slot: 1, then 2 */
bool owed;              /* a wake was accepted and no poll has begun since */
bool spent;             /* coroutine 1 is over, its references are gone, and the slot is not free yet */
byte ended;             /* outsiders that have ended */
bool closing;           /* the executor is being dropped */
bool started[OUTSIDERS];

#define ALIVE assert(!freed)

/* Scheduler::unanchor; the destruction is Storage::destroy */
inline unanchor() {
    atomic {
        ALIVE; assert(anchors > 0);
        anchors--;
        if :: anchors == 0 -> freed = true; spent = false; owed = false :: else fi
    }
}

/* Scheduler::push_inbox: push, announce, notify */
inline push_inbox() {
    atomic { ALIVE; assert(inbox == 0); inbox++ }
    atomic { ALIVE; arriving = true }
#ifndef ANNOUNCE_CLOSED
    atomic {
        ALIVE;
        if :: CLOSED -> arriving = false :: else fi
    }
#endif
#ifndef NO_NOTIFY
    atomic { ALIVE; notified = true }
#endif
}

inline make_ready() {
    assert(state == Blocked || state == Running || state == Free);
    state = Ready
}

/* ------------------------------------------------------------------ anyone ------------------------------------------- */

proctype Outsider(byte me) {
    byte own = 1;       /* references that this one holds */
    byte wakes = 0;
    bool push, anchor, orphan, accepted;

end_never_polled:
    started[me];
    do
    /* wake_by_ref, Remote::cancel: Signals::send, then push_inbox if QUEUED was clear */
    :: own > 0 && wakes < WAKES ->
        wakes++;
#ifdef PUSH_FIRST
        if :: !QUEUED -> push_inbox() :: else fi;
#endif
        atomic {
            ALIVE; push = false; accepted = !(CLOSED || RETIRED);
            assert(life == 1);      /* a reference never reaches a stranger */
            if
            :: accepted ->
                if
                :: WAKE = true; owed = (state != Exited && state != Free)
                :: CANCEL = true
                fi;
                if :: !QUEUED -> QUEUED = true; push = true :: else fi
            :: else
            fi
        }
#ifndef PUSH_FIRST
        if :: push -> push_inbox() :: else fi
#endif
    /* clone: Signals::acquire */
    :: own == 1 -> atomic { ALIVE; references++; own++ }
    /* drop_waker: Signals::release */
    :: own > 0 ->
        own--;
        atomic {
            ALIVE; assert(references > 0); anchor = false; orphan = false; push = false;
            if
            :: references > 1 -> references--
            :: else ->
                if
                :: CLOSED -> references = 0; orphan = true
                :: !CLOSED && RETIRED && !QUEUED ->
#ifdef NO_ANCHOR
                    references = 0; QUEUED = true; push = true
#else
                    anchor = true
#endif
                :: else -> references = 0
                fi
            fi
        }
        if
        :: orphan -> unanchor()
#ifdef NO_ANCHOR
        :: push -> push_inbox()
#endif
        :: anchor ->
            atomic { ALIVE; anchors++ }
            atomic {            /* Signals::release(anchored) */
                ALIVE; assert(references == 1);
                references = 0;
                if :: CLOSED -> orphan = true :: else -> QUEUED = true; push = true fi
            }
            if :: push -> push_inbox() :: orphan -> unanchor() fi;
            unanchor()
        :: else
        fi
    :: own == 0 -> break
    od;
    atomic {
        ended++;
        if :: ended == OUTSIDERS && state == Exited && !closing -> spent = true :: else fi
    }
}

/* ------------------------------------------------------------------ the owner ---------------------------------------- */

proctype Owner() {
    bool wake, cancel, reclaim, pending, free_now, referenced, polled_second;
    byte i;

    /* Scheduler::spawn of coroutine 1 */
    atomic { life = 1; make_ready() }

step:
    /* Scheduler::step. The executor may be dropped between any two steps. */
    if
    :: skip
    :: goto drop_executor
    fi;
#ifdef DRAIN_INBOX_ONLY
    if :: inbox > 0 -> goto drain :: else fi;
#else
    if :: arriving -> goto drain :: else fi;
#endif
choose:
    if
    :: state == Ready -> goto poll
    :: else ->
        if
        :: state == Free && life == 1 ->
            /* the slot serves a second coroutine: Block::occupy */
            atomic {
                assert(references == 0 && !QUEUED && inbox == 0);
                WAKE = false; CANCEL = false; RETIRED = false;
                life = 2; make_ready()
            }
            goto step
        :: else -> goto park
        fi
    fi;

park:
end_park:
    atomic { notified -> notified = false }
    goto step;

drain:
    /* Scheduler::drain_inbox: clear_arriving, swap, Signals::take, apply_signals */
    arriving = false;
    atomic { pending = (inbox > 0); inbox = 0 }
    if
    :: pending ->
#ifdef LATE_CLEAR
        atomic { wake = WAKE; cancel = CANCEL; WAKE = false; CANCEL = false; reclaim = (RETIRED && references == 0) }
        QUEUED = false;
#else
        atomic {
            assert(QUEUED);
            wake = WAKE; cancel = CANCEL;
            WAKE = false; CANCEL = false; QUEUED = false;
#ifdef RECLAIM_REFERENCED
            reclaim = RETIRED
#else
            reclaim = (RETIRED && references == 0)
#endif
        }
#endif
        pending = false;
        if
        :: state == Exited && reclaim -> atomic { assert(references == 0); state = Free; spent = false }
        :: state == Exited && !reclaim
        :: state != Exited && state != Free && cancel ->
            /* drop_future: the destructor takes its time */
            state = Running;
            goto exit
        :: (state == Blocked) && !cancel && wake -> make_ready()
        :: else -> assert(state != Free)
        fi
    :: else
    fi;
    goto choose;

poll:
    atomic {
        state = Running; owed = false;
        assert(!polled_second);     /* nothing wakes the second coroutine */
        polled_second = (life == 2)
    }
    /* the first poll hands out wakers */
    if
    :: life == 1 && !started[0] ->
        atomic {
            references = OUTSIDERS;
            for (i : 0 .. OUTSIDERS - 1) { started[i] = true }
        }
    :: else
    fi;
    if
    :: life == 1 -> state = Ready               /* yield_now: woken while it ran */
    :: state = Blocked
    :: goto exit
    fi;
    goto step;

exit:
    /* Scheduler::exit of a coroutine whose handle is gone; give_slot, Signals::retire in its two steps */
    atomic { state = Exited; owed = false; if :: ended == OUTSIDERS -> spent = (life == 1) :: else fi }
    if
    :: life == 2 -> goto drop_executor
    :: else
    fi;
    atomic {
        free_now = (references == 0 && !QUEUED);
        if :: free_now -> state = Free; spent = false :: else fi
    }
    if
    :: free_now
    :: else ->
        atomic {
            RETIRED = true;
#ifdef RETIRE_QUEUED
            if :: references == 0 -> state = Free; spent = false :: else fi
#else
            if :: references == 0 && !QUEUED -> state = Free; spent = false :: else fi
#endif
        }
    fi;
    goto step;

drop_executor:
    /* Scheduler::close: drain and cancel, so that nothing runs any more; then close every block, then let go. */
    atomic { closing = true; if :: state != Free -> state = Exited :: else fi; owed = false; spent = false }
    atomic { ALIVE; anchors++ }
    atomic { ALIVE; CLOSED = true; referenced = (references > 0) }
    if
    :: !referenced -> atomic { assert(anchors > 1); anchors-- }
    :: else
    fi;
    arriving = false;
    unanchor();
    /* An outsider that never got a waker has nothing to do. */
    atomic {
        if :: !started[0] -> ended = OUTSIDERS :: else fi
    }
end_dropped:
    ended == OUTSIDERS -> assert(freed && !arriving)
}

init {
    atomic {
        run Owner();
        byte i;
        for (i : 0 .. OUTSIDERS - 1) { run Outsider(i) }
    }
}

ltl live {
    [] (owed -> <> !owed) && [] (spent -> <> !spent) && [] (arriving -> <> !arriving)
}
