/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the scheduler needs of the kernel, declared by hand.
 *
 * libbpf relocates each access to the running kernel's layout, so a structure names only the
 * members that are read. No header of a kernel is needed to build.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_HASH_OF_MAPS = 13,
    BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
    BPF_F_NO_PREALLOC = 1u << 0,
    BPF_F_MMAPABLE = 1u << 10,
    BPF_LOCAL_STORAGE_GET_F_CREATE = 1u << 0,
};

#define CLOCK_MONOTONIC 1
#define PF_KTHREAD 0x00200000

struct bpf_timer {
    u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_iter_num {
    u64 opaque[1];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define RELOCATED __attribute__((preserve_access_index))

/* Only pointed to; the member makes it a whole type, which libbpf compares. */
struct cpumask {
    unsigned long bits[1];
} RELOCATED;

struct sched_ext_entity {
    u32 flags;
    u32 weight;
    u64 slice;
    u64 dsq_vtime;
} RELOCATED;

struct task_struct {
    s32 pid;
    s32 tgid;
    u32 flags;
    int nr_cpus_allowed;
    const struct cpumask *cpus_ptr;
    struct sched_ext_entity scx;
} RELOCATED;

enum scx_exit_kind {
    SCX_EXIT_NONE,
};

struct scx_exit_info {
    enum scx_exit_kind kind;
    const char *reason;
    const char *msg;
} RELOCATED;

struct scx_init_task_args;
struct scx_exit_task_args;

/* libbpf finds each member by its name in the kernel's structure. */
struct sched_ext_ops {
    s32 (*select_cpu)(struct task_struct *task, s32 previous, u64 flags);
    void (*enqueue)(struct task_struct *task, u64 flags);
    void (*dispatch)(s32 cpu, struct task_struct *previous);
    void (*tick)(struct task_struct *task);
    void (*running)(struct task_struct *task);
    void (*stopping)(struct task_struct *task, _Bool runnable);
    void (*quiescent)(struct task_struct *task, u64 flags);
    s32 (*init_task)(struct task_struct *task, struct scx_init_task_args *arguments);
    void (*exit_task)(struct task_struct *task, struct scx_exit_task_args *arguments);
    void (*enable)(struct task_struct *task);
    s32 (*init)(void);
    void (*exit)(struct scx_exit_info *information);
    u64 flags;
    u32 timeout_ms;
    char name[128];
};

struct bpf_iter_scx_dsq {
    u64 opaque[6];
} __attribute__((aligned(8)));

#define SCX_DSQ_LOCAL ((1ull << 63) | 2)
#define SCX_KICK_PREEMPT 2
#define SCX_TASK_QUEUED 1
#define SCX_ENQ_WAKEUP 1

extern s32 scx_bpf_create_dsq(u64 queue, s32 node) __ksym;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *task, s32 previous, u64 flags,
                                  _Bool *is_idle) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *task, u64 queue, u64 slice, u64 flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *task, u64 queue, u64 slice, u64 vtime,
                                     u64 flags) __ksym;
extern _Bool scx_bpf_dsq_move_to_local(u64 queue) __ksym;
extern s32 scx_bpf_dsq_nr_queued(u64 queue) __ksym;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
extern s32 scx_bpf_task_cpu(const struct task_struct *task) __ksym;
extern u32 scx_bpf_nr_cpu_ids(void) __ksym;
extern _Bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 queue, u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __ksym;
extern _Bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *task,
                                    u64 queue, u64 flags) __ksym;

/* From Linux 7.0 on. Before, the slice is written directly. */
extern _Bool scx_bpf_task_set_slice(struct task_struct *task, u64 slice) __ksym __weak;
/* From Linux 6.19 on. Before, the head of a queue is what an iteration returns first. */
extern struct task_struct *scx_bpf_dsq_peek(u64 queue) __ksym __weak;
