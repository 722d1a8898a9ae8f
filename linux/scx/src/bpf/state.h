/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the scheduler knows: its constants, its maps, and its sums.
 */
#pragma once

#include "kernel.h"
#include "page.h"

#define DEFAULT 32
#define LAST (LEVELS - 1)
#define IDLE LEVELS
#define NEVER (~0ull)

enum { FRONT, BACK, QUEUES };

/* How long a thread runs before an equal has its turn. */
#define SLICE (4 * 1000 * 1000ull)
/* What a thread that slept may have saved of its fair share. */
#define CREDIT (4 * 1000 * 1000ull)
/* How far a thread may be ahead of its fair share and keep its level. */
#define BURST (40 * 1000 * 1000ull)
/* How far a thread may be ahead of its fair share or behind it at all. */
#define DEBT (100 * 1000 * 1000ull)
/* BACK is owed one part for so many that FRONT runs. */
#define FRONT_PARTS 19
/* The bits of a key that are virtual time; the level is above. */
#define VTIME_BITS 56
/* Where virtual time begins, so that credit can be subtracted. */
#define EPOCH (1ull << 40)

#define CPUS 512
#define PROCESSES 1024
/* How many waiting threads are checked when deadlines pass. */
#define SCANNED 256

/*
 * How long until deadlines of waiting threads are checked again: at least; while threads wait;
 * and while none waits.
 */
#define SCAN_SOON (100 * 1000ull)
#define SCAN_QUEUED (250 * 1000ull)
#define SCAN_LATE (1000 * 1000ull)

/* What the scheduler remembers of a thread. */
struct context {
    u64 vtime[QUEUES];
    /* Until when it has been charged. */
    u64 since;
    /* Its next deadline, as its page showed it last. */
    u64 deadline;
    /* The page's generation when no slot was found, plus one; 0 for never. */
    u64 searched;
    /* The level at which it waits or runs. */
    u32 level;
    u32 slot;
    /* The weight that is counted for it, and in which queue's sum. */
    u32 counted;
    u32 counted_in;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct context);
} contexts SEC(".maps");

/* The levels that a process was granted, one bit each. The daemon adds, an exit removes. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, PROCESSES);
    __type(key, u32);
    __type(value, u64);
} grants SEC(".maps");

struct page_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    /* Sizes, because the compiler describes no type that is only pointed to. */
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(struct corank_page));
};

/* The page of each process that takes part: a map of its own, which the process maps. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
    __uint(max_entries, PROCESSES);
    __type(key, u32);
    __array(values, struct page_map);
} pages SEC(".maps");

/* The daemon freezes it, so that this program alone can write it. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct corank_board);
} board SEC(".maps");

struct alarm {
    struct bpf_timer timer;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct alarm);
} alarms SEC(".maps");

/* Settings of the daemon, before the program is loaded. */
struct settings {
    /* A thread that never gets a processor, for the test of the kernel's watchdog; 0 for none. */
    u32 forgotten;
};
const volatile struct settings settings SEC(".rodata.settings");

/* What the daemon reads. */
struct state {
    /* Why the kernel has ended the scheduler; 0 while it runs. */
    u64 ended;
    char reason[128];
    char message[128];
};
struct state state SEC(".data.state");

/* What the daemon writes. */
struct control {
    /* How many processes take part. */
    u64 processes;
};
volatile struct control control SEC(".data.control");

/* The virtual time that the threads of a queue should have reached. */
static u64 clocks[QUEUES];
/* The weights of the threads of each queue that wait or run. */
static u64 weights[QUEUES];
/* The time that BACK is owed. */
static s64 owed;
/* Since when a thread waits in FRONT; NEVER if none does. */
static u64 front_waits = NEVER;
/* The first deadline of a thread that waits. */
static u64 first_deadline = NEVER;
/* What a processor runs. */
struct running {
    /* The level for which the thread got the processor, or that it showed at the last tick. */
    u32 level;
    u32 process;
    u32 thread;
    u32 slot;
};
static struct running running_on[CPUS];

static __always_inline u32 queue_of(u32 level)
{
    return level > DEFAULT ? BACK : FRONT;
}

static __always_inline u32 weight_of(struct task_struct *task)
{
    u32 weight = task->scx.weight;

    return weight ? weight : 1;
}

static __always_inline struct context *context_of(struct task_struct *task)
{
    return bpf_task_storage_get(&contexts, task, 0, 0);
}
