/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory that the kernel shares with processes. `src/page.rs` has the same layout.
 *
 * A process writes its page and nothing else. The kernel trusts no word of it.
 */
#pragma once

#define LEVELS 64
#define SLOTS 63
#define DEADLINES 2

/* Something that becomes due. */
struct corank_deadline {
    /* When, in nanoseconds of CLOCK_MONOTONIC; 0 for never. */
    u64 at;
    /* At which level. */
    u64 level;
};

/* What one thread shows. All words are the thread's own. */
struct corank_slot {
    /* The thread's number, or 0 for a slot that is free. */
    u64 thread;
    /* The level of what it runs or would run next; LEVELS while it has nothing to run. */
    u64 level;
    /* The level that counts from a wake until the thread shows another: its most urgent. */
    u64 waiting;
    u64 unused;
    /* What becomes due while the thread runs something less urgent or waits for a processor. */
    struct corank_deadline deadlines[DEADLINES];
};

struct corank_page {
    /* Changes when a slot gets another thread. */
    u64 generation;
    u64 unused[7];
    struct corank_slot slots[SLOTS];
};

/* What every process with a page may read. */
struct corank_board {
    /* The most urgent level that waits for a processor; LEVELS if none does. */
    u64 queued;
    /* Changes when that has changed for another reason than that a thread went on. */
    u64 changes;
};
