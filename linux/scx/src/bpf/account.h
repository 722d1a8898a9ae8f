/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What threads have run, and the order that follows from it.
 */
#pragma once

#include "state.h"

/* Counts a thread's weight in the sum of the queue where it belongs now. */
static __always_inline void count(struct context *context, u32 weight, u32 queue)
{
    u32 before = context->counted_in & 1;

    if (context->counted == weight && before == queue)
        return;
    if (context->counted)
        __sync_fetch_and_add(&weights[before], -(u64)context->counted);
    if (weight)
        __sync_fetch_and_add(&weights[queue & 1], weight);
    context->counted = weight;
    context->counted_in = queue;
}

/* Charges a thread for what it has run, in one of its accounts. */
static __always_inline void bill(struct context *context, u32 weight, u32 queue, u64 ran)
{
    u64 all = weights[queue];

    context->vtime[queue] += ran * 100 / weight;
    __sync_fetch_and_add(&clocks[queue], ran * 100 / (all > weight ? all : weight));
    if (queue == FRONT) {
        if (owed < (s64)(2 * SLICE) && scx_bpf_dsq_nr_queued(BACK) > 0)
            __sync_fetch_and_add(&owed, (s64)(ran / FRONT_PARTS));
    } else if (owed > 0) {
        __sync_fetch_and_add(&owed, -(s64)ran);
    }
}

/*
 * Charges a thread for what it has run since it was charged last. It shows the level `shown` now.
 *
 * A thread that got its processor for something in front and goes on with something behind is
 * charged for the latter as long as nothing in front waits. A process that lies about that hurts
 * nothing in front.
 */
static __always_inline void charge(struct context *context, u32 weight, u64 now, u32 shown)
{
    u64 from = context->since;
    u64 ran = now - from;
    u64 waits = front_waits;
    u64 behind = 0;

    if ((s64)ran <= 0)
        return;
    context->since = now;
    if (queue_of(context->level) == BACK)
        behind = ran;
    else if (queue_of(shown) == BACK && waits > from)
        behind = waits < now ? waits - from : ran;
    if (behind)
        bill(context, weight, BACK, behind);
    if (ran > behind)
        bill(context, weight, FRONT, ran - behind);
}

/* Sets the level at which a thread waits or runs, and returns its place in the order. */
static __always_inline u64 place(struct context *context, u32 weight, u32 level, _Bool wakes)
{
    u32 queue = queue_of(level);
    u64 clock = clocks[queue];
    u64 vtime = context->vtime[queue];
    u64 least = clock - (wakes ? CREDIT : DEBT);

    if ((s64)(vtime - least) < 0)
        vtime = least;
    if ((s64)(vtime - (clock + DEBT)) > 0)
        vtime = clock + DEBT;
    context->vtime[queue] = vtime;
    if ((s64)(vtime - (clock + BURST)) > 0)
        level = queue == FRONT ? DEFAULT : LAST;
    context->level = level;
    count(context, weight, queue);
    return ((u64)level << VTIME_BITS) | (vtime & ((1ull << VTIME_BITS) - 1));
}
