/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The levels that threads show in their pages.
 */
#pragma once

#include "state.h"

/* Returns the lowest bit of a word that is not 0. */
static __always_inline u32 lowest_bit(u64 word)
{
    u32 at = 0;

    if (!(word & 0xffffffff)) { at += 32; word >>= 32; }
    if (!(word & 0xffff)) { at += 16; word >>= 16; }
    if (!(word & 0xff)) { at += 8; word >>= 8; }
    if (!(word & 0xf)) { at += 4; word >>= 4; }
    if (!(word & 0x3)) { at += 2; word >>= 2; }
    if (!(word & 0x1)) at += 1;
    return at;
}

/* Finds the slot of a thread in its process's page; SLOTS if it has none. */
static __always_inline u32 slot_of(struct context *context, struct corank_page *page, u32 thread)
{
    u64 generation = page->generation;
    u32 found = context->slot;
    u32 at;

    if (found < SLOTS && page->slots[found].thread == thread)
        return found;
    found = SLOTS;
    if (context->searched == generation + 1)
        return found;
    bpf_for(at, 0, SLOTS) {
        if (page->slots[at].thread == thread) {
            found = at;
            break;
        }
    }
    context->slot = found;
    context->searched = found == SLOTS ? generation + 1 : 0;
    return found;
}

/*
 * Returns the level that a thread's page shows now, as far as it was granted.
 *
 * A function that the verifier checks by itself, or every caller would be checked with it.
 */
__noinline u32 shown_level(struct context *context __arg_nonnull, u32 process, u32 thread, u64 now)
{
    u32 zero = 0;
    u64 *grant = bpf_map_lookup_elem(&grants, &process);
    u64 level, least, granted;
    struct corank_page *page;
    struct corank_slot *slot;
    void *map;
    u32 at;

    context->deadline = NEVER;
    if (!grant)
        return DEFAULT;
    map = bpf_map_lookup_elem(&pages, &process);
    if (!map)
        return DEFAULT;
    page = bpf_map_lookup_elem(map, &zero);
    if (!page)
        return DEFAULT;
    at = slot_of(context, page, thread);
    if (at >= SLOTS)
        return DEFAULT;
    slot = &page->slots[at];
    level = *(volatile u64 *)&slot->level;
    if (level >= LEVELS)
        level = *(volatile u64 *)&slot->waiting;
    if (level >= LEVELS)
        return DEFAULT;
    least = level;
    for (at = 0; at < DEADLINES; at++) {
        u64 time = *(volatile u64 *)&slot->deadlines[at].at;
        u64 due = *(volatile u64 *)&slot->deadlines[at].level;

        if (!time || due >= least)
            continue;
        if (time <= now)
            level = due < level ? due : level;
        else if (time < context->deadline)
            context->deadline = time;
    }
    granted = *grant & (NEVER << (level & LAST));
    return granted ? lowest_bit(granted) : LAST;
}

/*
 * Returns the level that a processor runs.
 *
 * A thread may have gone on with something less urgent than what it got the processor for. What it
 * shows that is more urgent does not count before the next tick, which reads its grant.
 */
__noinline u32 level_on(u32 cpu)
{
    struct running *running = &running_on[cpu & (CPUS - 1)];
    u32 slot = running->slot, level = running->level, zero = 0, process = running->process;
    struct corank_page *page;
    u64 shown;
    void *map;

    if (level > DEFAULT || slot >= SLOTS)
        return level;
    map = bpf_map_lookup_elem(&pages, &process);
    page = map ? bpf_map_lookup_elem(map, &zero) : 0;
    if (!page || page->slots[slot].thread != running->thread)
        return level;
    shown = *(volatile u64 *)&page->slots[slot].level;
    return shown < LEVELS && shown > level ? shown : level;
}
