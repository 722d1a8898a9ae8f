/* User-level interrupts: no arrival is lost between ring, flag, mask, upcall and the wait in the kernel.
 *
 * spin: -a
 * gcc: -O2 -DNFAIR=3
 * pan: -a -f -m100000
 * pan: -noclaim -m100000
 * broken: -DNO_CHECK
 * broken: -DCHECK_FIRST
 * broken: -DRAISE_TWO_STEPS
 * broken: -DUNMASK_BLINDLY
 * broken: -DRETURN_BLINDLY
 * broken: -DCLEAR_LATE
 * broken: -DFORGET_DEFERRED
 * broken: -DSLEEP_TWO_STEPS
 * broken: -DEXIT_OPEN
 * broken: -DDROP_WHEN_FULL
 * broken: -DFORGET_KEPT
 * broken: -DCHECK_RING_ONLY
 *
 * One thread, whose executor takes what has arrived, waits in the kernel, or runs a coroutine that computes for ever; a kernel
 * coroutine that completes calls; another thread that wakes a coroutine. The thread's instructions are the steps of `Thread`; an
 * interrupt may come between any two of them, also inside the handler. Each block is one function:
 *
 *   raise, open, close                        os/abi/src/upcall.rs, Flag
 *   fill                                      os/abi/src/ring.rs, Outbox
 *   Completer                                 os/kernel/src/user/syscall/ring/serve.rs, complete
 *   Waker                                     os/user/src/interrupt.rs, interrupt
 *   Kernel, ring_enter, upcall_return         os/kernel/src/user/upcall.rs; user/syscall/ring, enter
 *   take_completions                          os/user/src/ring/shared.rs, take_completions
 *   unmask, take_deferred, serve, region      os/user/src/interrupt.rs
 *   wait                                      os/user/src/runtime.rs
 *
 * Memory orders are not modelled: os/abi/tests/loom.rs looks after those.
 *
 * Checked: everything that arrives is collected, also while the coroutine computes; no process gets stuck; an executor that checks by
 * itself is not interrupted; the handler is entered only unmasked, on a stack that is free. The checks can fail: each `broken` above takes something out, and `cargo xtask test` expects
 * spin to find the error. README.md says what is taken out.
 */
#define COMPLETIONS 2
#define WAKES 1
#define TOTAL (COMPLETIONS + WAKES)
#define ENTRIES 1       /* of the completion ring */

byte put;               /* what has arrived: completions and wakes alike */
byte taken;             /* what the executor has collected */
byte ring;              /* completions in the ring */
byte kept;              /* completions that the kernel keeps because it is full */
byte inbox;             /* wakes */
bool locked;            /* the ring's lock in the kernel: it holds off ring_enter, but not the process that takes from the ring */
bool flag_open;         /* the flag in the process's page; closed while the executor is at work */
byte masked = 1;        /* Block::masked */
bool deferred;          /* Block::deferred */
bool stack_free = true; /* Block::stack is not 0 */

mtype = { Quiet, Raised, Deferred };
mtype kernel = Quiet;   /* Upcalls::state */
bool asleep;            /* the thread waits in ring_enter */
bool completes;         /* ring_enter waits for a completion */
bool interrupted;       /* the handler runs, on top of `Thread` */
bool at_work = true;    /* the executor checks by itself, and need not be interrupted */

/* Upcalls::raise: the state, then a thread that waits checks again */
inline raise_in_kernel() {
    kernel = Raised;
    atomic { asleep = false; completes = false }
}

/* Flag::raise */
inline raise(told) {
#ifdef RAISE_TWO_STEPS
    told = flag_open; assert(!told || !at_work); flag_open = false
#else
    atomic { told = flag_open; assert(!told || !at_work); flag_open = false }
#endif
}

/* What is kept goes into the ring as far as there is room. */
inline fill() {
    do
    :: ring < ENTRIES && kept > 0 -> kept--; ring++
    :: else -> break
    od
}

/* Ring::complete: a waiter is woken; otherwise the flag decides */
proctype Completer() {
    bool told; bool has_room; byte n;
    for (n : 1 .. COMPLETIONS) {
        atomic {
            !locked -> locked = true;
            put++;
            has_room = (kept == 0 && ring < ENTRIES);
            if :: has_room -> ring++ :: else fi
        }
#ifndef DROP_WHEN_FULL
        if :: has_room :: else -> kept++ fi;
#endif
        atomic {
            locked = false;
            told = completes;
            if :: completes -> asleep = false; completes = false :: else fi
        }
        if
        :: told
        :: else ->
            raise(told);
            if :: told -> raise_in_kernel() :: else fi
        fi
    }
}

/* A wake from another thread: the inbox, the flag, upcall_raise */
proctype Waker() {
    bool told; byte n;
    for (n : 1 .. WAKES) {
        atomic { put++; inbox++ }
        raise(told);
        if :: told -> raise_in_kernel() :: else fi
    }
}

/* --------------------------------------------------------- the thread's own code --------------------------------------- */

/* One instruction of `context`: of the thread while no handler runs on top of it, or of the handler. */
#define AT(context) (interrupted == context)

inline take_completions(context) {
    do
    :: atomic { AT(context) -> taken = taken + ring + inbox; ring = 0; inbox = 0 }
#ifdef FORGET_KEPT
        break
#else
        if
        :: atomic { AT(context) && (kept == 0) } -> break
        /* ring_enter */
        :: atomic { AT(context) && (kept != 0) && !locked -> fill() }
        fi
#endif
    od
}

/* Whether the thread sees that something has arrived. */
#if defined(CHECK_RING_ONLY) || defined(FORGET_KEPT)
#define SEES (ring != 0 || inbox != 0)
#else
#define SEES (ring != 0 || kept != 0 || inbox != 0)
#endif

/* run_more_urgent, Flag::open_when_quiet */
inline open_when_quiet(context) {
    do
    :: take_completions(context);
#ifdef CHECK_FIRST
        if
        :: atomic { AT(context) && !SEES } -> atomic { AT(context) -> flag_open = true; at_work = false } break
        :: atomic { AT(context) && SEES }
        fi
#else
        atomic { AT(context) -> flag_open = true; at_work = false }
#ifdef NO_CHECK
        break
#else
        if
        :: atomic { AT(context) && !SEES } -> break
        :: atomic { AT(context) && SEES -> flag_open = false; at_work = true }
        fi
#endif
#endif
    od
}

/* serve, with the next stack taken while it runs */
inline serve(context) {
    atomic { AT(context) -> assert(stack_free); stack_free = false }
    open_when_quiet(context);
    atomic { AT(context) -> stack_free = true }
}

inline take_deferred() {
    do
    :: atomic { AT(false) && !deferred } -> break
    :: atomic { AT(false) && deferred -> masked++ }
#ifndef CLEAR_LATE
        atomic { AT(false) -> deferred = false }
#endif
        serve(false);
#ifdef CLEAR_LATE
        atomic { AT(false) -> deferred = false }
#endif
        atomic { AT(false) -> masked = 0 }
    od
}

inline unmask() {
    atomic { AT(false) -> masked-- }
#ifndef UNMASK_BLINDLY
    take_deferred()
#endif
}

proctype Thread() {
    bool wait;
executor:
    /* Between two polls: the flag is closed, the executor looks. */
    take_completions(false);
    if
    :: goto executor
    :: goto park
    :: goto region
    fi;

park:
    /* Runtime::wait */
    atomic { AT(false) -> flag_open = true; at_work = false }
    if
    :: atomic { AT(false) && SEES }
    :: atomic { AT(false) && !SEES } ->
        /* ring_enter: the look and the sleep under the ring's lock */
#ifdef SLEEP_TWO_STEPS
        atomic { AT(false) -> wait = (kernel == Quiet); kernel = Quiet }
        if :: wait -> atomic { asleep = true; completes = true } :: else fi;
#else
        atomic {
            AT(false) ->
#ifdef FORGET_DEFERRED
            if :: kernel != Raised -> asleep = true; completes = true :: else fi;
#else
            if :: kernel == Quiet -> asleep = true; completes = true :: else fi;
#endif
            kernel = Quiet
        }
#endif
end_park:
        /* Woken: an interrupt that was raised meanwhile is taken here. */
        atomic { !asleep -> kernel = (kernel == Raised -> Quiet : kernel) }
    fi;
    atomic { AT(false) -> flag_open = false; at_work = true }
    goto executor;

region:
    /* Region::enter: as if an interrupt had come */
    atomic { AT(false) -> deferred = true }
    unmask();
    do
    :: atomic { AT(false) -> skip }
    /* a lock in the library: masked for a moment */
    :: atomic { AT(false) -> masked++ }
        unmask()
    /* a computation may end; the last one doesn't, so that nothing but interrupts helps */
    :: atomic { AT(false) && (put < TOTAL) } -> break
    od;
    /* Region::drop */
    atomic { AT(false) -> masked++ }
    atomic {
        AT(false) -> at_work = true;
#ifndef EXIT_OPEN
        flag_open = false
#endif
    }
    atomic { AT(false) -> deferred = false }
    goto executor
}

/* --------------------------------------------------------- the kernel --------------------------------------------------- */

/* The way to user mode, between two instructions of the thread; then the handler, as its own instructions */
proctype Kernel() {
end_quiet:
    do
    :: atomic {
        kernel == Raised && !asleep && !interrupted ->
        if
        :: masked > 0 || !stack_free -> deferred = true; kernel = Deferred
        :: else -> kernel = Quiet; masked = 1; interrupted = true
        fi
    }
    /* Also in the handler, where it is always masked. */
    :: atomic { kernel == Raised && interrupted -> assert(masked > 0); deferred = true; kernel = Deferred }
    od
}

proctype Handler() {
end_not_called:
    do
    :: interrupted ->
#ifndef CLEAR_LATE
        deferred = false;
#endif
        serve(true);
#ifdef CLEAR_LATE
        deferred = false;
#endif
        /* upcall_return */
        atomic {
            masked = 0; interrupted = false;
#ifndef RETURN_BLINDLY
            if :: deferred -> deferred = false; kernel = Raised :: else fi
#endif
        }
    od
}

init {
    atomic { run Thread(); run Kernel(); run Handler(); run Completer(); run Waker() }
}

/* What has arrived is collected, whatever the thread does meanwhile. */
ltl all_is_taken { [] ((put > taken) -> <> (put == taken)) }
