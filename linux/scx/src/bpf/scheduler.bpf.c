/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A scheduler for Linux that runs the most urgent level first, as the pages of processes show it.
 *
 * Threads wait in two queues. FRONT has the levels up to DEFAULT, which is where every thread
 * counts that takes no part. BACK has the levels behind. Each queue is ordered by level, and within
 * a level by virtual time: the time a thread has run, by its weight.
 *
 * Three bounds make lies and mistakes harmless:
 *  - A level is what the page shows, masked by the levels that were granted to the process.
 *  - A thread whose virtual time is BURST ahead of the queue's clock has had more than its fair
 *    share. It counts at the last level of its queue until the others have caught up.
 *  - BACK gets at least a twentieth of the time.
 *
 * A thread has a virtual time for each queue, so what it computes at levels behind does not use up
 * its share of the levels in front.
 */
#include "account.h"
#include "levels.h"

/* The kernel asks for a licence that is compatible with the GPL. */
char license_of_program[] SEC("license") = "Dual MIT/GPL";

/* Returns the place of the first thread of a queue; NEVER if it is empty. */
static __always_inline u64 head(u32 queue)
{
    struct task_struct *task;
    u64 key = NEVER;

    if (bpf_ksym_exists(scx_bpf_dsq_peek)) {
        task = scx_bpf_dsq_peek(queue);
        return task ? task->scx.dsq_vtime : NEVER;
    }
    struct bpf_iter_scx_dsq it;
    if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
        task = bpf_iter_scx_dsq_next(&it);
        if (task)
            key = task->scx.dsq_vtime;
    }
    bpf_iter_scx_dsq_destroy(&it);
    return key;
}

static __always_inline u32 level_of_key(u64 key)
{
    u64 level = key >> VTIME_BITS;

    return level < LEVELS ? level : IDLE;
}

static __always_inline void set_slice(struct task_struct *task, u64 slice)
{
    if (bpf_ksym_exists(scx_bpf_task_set_slice))
        scx_bpf_task_set_slice(task, slice);
    else
        task->scx.slice = slice;
}

/* Shows all processes that a thread has begun to wait at this level. */
static __always_inline void show_arrival(u32 level, u64 now)
{
    u32 zero = 0;
    struct corank_board *shown = bpf_map_lookup_elem(&board, &zero);

    if (queue_of(level) == FRONT && front_waits == NEVER)
        front_waits = now;
    if (shown && level < shown->queued) {
        shown->queued = level;
        __sync_fetch_and_add(&shown->changes, 1);
    }
}

/*
 * Shows all processes the most urgent level that waits.
 *
 * A thread yields once for each change, and must not do so in vain for ever. So it is no change if
 * a processor goes on with the thread that it had.
 */
static __always_inline void show_queued(u32 level, _Bool switched)
{
    u32 zero = 0;
    struct corank_board *shown = bpf_map_lookup_elem(&board, &zero);

    if (!shown)
        return;
    shown->queued = level;
    if (switched)
        __sync_fetch_and_add(&shown->changes, 1);
}

/* Remembers what a processor runs. */
static __always_inline void remember(s32 cpu, struct task_struct *task, struct context *context)
{
    struct running *running = &running_on[cpu & (CPUS - 1)];

    running->level = context->level;
    running->process = task->tgid;
    running->thread = task->pid;
    running->slot = context->slot;
}

/* Preempts the processor that runs the least urgent level, if that is less urgent than `level`. */
static __always_inline void preempt(struct task_struct *task, u32 level)
{
    s32 cpu = scx_bpf_task_cpu(task);
    u32 cpus = scx_bpf_nr_cpu_ids();
    u32 least = level;
    s32 chosen = -1;
    u32 at;

    /* Most of the time the processor where it ran last will do. */
    if (cpu >= 0 && cpu < CPUS && running_on[cpu & (CPUS - 1)].level > DEFAULT &&
        running_on[cpu & (CPUS - 1)].level > level) {
        running_on[cpu & (CPUS - 1)].level = level;
        scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
        return;
    }
    bpf_for(at, 0, cpus) {
        u32 runs = level_on(at);

        if (at < CPUS && runs > least && bpf_cpumask_test_cpu(at, task->cpus_ptr)) {
            least = runs;
            chosen = at;
        }
    }
    if (chosen < 0)
        return;
    /* The next arrival preempts another one. */
    running_on[chosen & (CPUS - 1)].level = level;
    scx_bpf_kick_cpu(chosen, SCX_KICK_PREEMPT);
}

static __always_inline _Bool is_bound_kernel_thread(struct task_struct *task)
{
    return (task->flags & PF_KTHREAD) && task->nr_cpus_allowed == 1;
}

static __always_inline void note_deadline(struct context *context)
{
    if (context->deadline < first_deadline)
        first_deadline = context->deadline;
}

SEC("struct_ops/select_cpu")
s32 BPF_PROG(select_cpu, struct task_struct *task, s32 previous, u64 flags)
{
    _Bool is_idle = 0;
    s32 cpu = scx_bpf_select_cpu_dfl(task, previous, flags, &is_idle);
    struct context *context;

    if (is_idle && (context = context_of(task))) {
        u32 level = shown_level(context, task->tgid, task->pid, bpf_ktime_get_ns());

        place(context, weight_of(task), level, 1);
        scx_bpf_dsq_insert(task, SCX_DSQ_LOCAL, SLICE, 0);
    }
    return cpu;
}

SEC("struct_ops/enqueue")
void BPF_PROG(enqueue, struct task_struct *task, u64 flags)
{
    struct context *context = context_of(task);
    u64 now = bpf_ktime_get_ns();
    u32 level;
    u64 key;

    if (!context || is_bound_kernel_thread(task)) {
        if (context)
            place(context, weight_of(task), DEFAULT, 0);
        scx_bpf_dsq_insert(task, SCX_DSQ_LOCAL, SLICE, flags);
        return;
    }
    if (settings.forgotten && task->pid == settings.forgotten)
        return;
    level = shown_level(context, task->tgid, task->pid, now);
    key = place(context, weight_of(task), level, flags & SCX_ENQ_WAKEUP);
    level = context->level;
    note_deadline(context);
    scx_bpf_dsq_insert_vtime(task, queue_of(level), SLICE, key, flags);
    show_arrival(level, now);
    preempt(task, level);
}

SEC("struct_ops/dispatch")
void BPF_PROG(dispatch, s32 cpu, struct task_struct *previous)
{
    struct context *context = 0;
    u64 now = bpf_ktime_get_ns();
    u64 front = head(FRONT);
    u64 back = head(BACK);
    u64 own = NEVER;
    u32 queued;
    _Bool moved = 0;

    if (previous && (previous->scx.flags & SCX_TASK_QUEUED) && (context = context_of(previous))) {
        u32 weight = weight_of(previous);
        u32 shown = shown_level(context, previous->tgid, previous->pid, now);

        charge(context, weight, now, shown);
        own = place(context, weight, shown, 0);
    }
    if (back != NEVER && owed >= (s64)SLICE)
        moved = scx_bpf_dsq_move_to_local(BACK);
    if (!moved && front != NEVER && front < own)
        moved = scx_bpf_dsq_move_to_local(FRONT);
    if (!moved && back != NEVER && back < own)
        moved = scx_bpf_dsq_move_to_local(BACK);
    if (!moved && context) {
        set_slice(previous, SLICE);
        remember(cpu, previous, context);
    }
    if (moved) {
        front = head(FRONT);
        back = head(BACK);
    }
    if (front == NEVER)
        front_waits = NEVER;
    queued = level_of_key(front);
    show_queued(queued < LEVELS ? queued : level_of_key(back), moved);
}

SEC("struct_ops/tick")
void BPF_PROG(tick, struct task_struct *task)
{
    struct context *context = context_of(task);
    u64 now = bpf_ktime_get_ns();
    u32 level, shown, weight = weight_of(task);
    s32 cpu = scx_bpf_task_cpu(task);
    u64 front, back;

    if (!context || is_bound_kernel_thread(task))
        return;
    shown = shown_level(context, task->tgid, task->pid, now);
    charge(context, weight, now, shown);
    place(context, weight, shown, 0);
    level = context->level;
    remember(cpu, task, context);
    front = head(FRONT);
    back = head(BACK);
    if (level_of_key(front) < level || level_of_key(back) < level ||
        (level <= DEFAULT && back != NEVER && owed >= (s64)SLICE))
        set_slice(task, 0);
}

SEC("struct_ops/running")
void BPF_PROG(running, struct task_struct *task)
{
    struct context *context = context_of(task);
    s32 cpu = scx_bpf_task_cpu(task);

    if (!context)
        return;
    context->since = bpf_ktime_get_ns();
    remember(cpu, task, context);
}

SEC("struct_ops/stopping")
void BPF_PROG(stopping, struct task_struct *task, _Bool runnable)
{
    struct context *context = context_of(task);
    s32 cpu = scx_bpf_task_cpu(task);

    running_on[cpu & (CPUS - 1)].level = IDLE;
    if (context) {
        u64 now = bpf_ktime_get_ns();
        u32 shown = shown_level(context, task->tgid, task->pid, now);

        charge(context, weight_of(task), now, shown);
    }
}

SEC("struct_ops/quiescent")
void BPF_PROG(quiescent, struct task_struct *task, u64 flags)
{
    struct context *context = context_of(task);

    if (context)
        count(context, 0, 0);
}

SEC("struct_ops.s/init_task")
s32 BPF_PROG(init_task, struct task_struct *task, struct scx_init_task_args *arguments)
{
    struct context *context =
        bpf_task_storage_get(&contexts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

    if (!context)
        return -12; /* ENOMEM */
    context->slot = SLOTS;
    context->level = DEFAULT;
    context->deadline = NEVER;
    return 0;
}

SEC("struct_ops/enable")
void BPF_PROG(enable, struct task_struct *task)
{
    struct context *context = context_of(task);

    if (context) {
        context->vtime[FRONT] = clocks[FRONT];
        context->vtime[BACK] = clocks[BACK];
    }
}

SEC("struct_ops/exit_task")
void BPF_PROG(exit_task, struct task_struct *task, struct scx_exit_task_args *arguments)
{
    struct context *context = context_of(task);
    u32 process = task->tgid;

    if (context)
        count(context, 0, 0);
    /* The number may belong to another process next. */
    if (task->pid == task->tgid)
        bpf_map_delete_elem(&grants, &process);
}

/* Moves threads of a queue whose deadline has passed to the place that is theirs now. */
static __always_inline void scan(u32 queue, u64 now)
{
    struct bpf_iter_scx_dsq it;
    struct task_struct *task;
    u32 at;

    bpf_iter_scx_dsq_new(&it, queue, 0);
    /* A counter of the kernel's: one of this function would be followed through every value. */
    bpf_for(at, 0, SCANNED) {
        struct context *context;
        u32 level;
        u64 key;

        task = bpf_iter_scx_dsq_next(&it);
        if (!task)
            break;
        context = context_of(task);
        if (!context || context->deadline == NEVER)
            continue;
        if (context->deadline > now) {
            note_deadline(context);
            continue;
        }
        level = shown_level(context, task->tgid, task->pid, now);
        key = place(context, weight_of(task), level, 0);
        level = context->level;
        scx_bpf_dsq_move_set_vtime(&it, key);
        if (scx_bpf_dsq_move_vtime(&it, task, queue_of(level), 0)) {
            show_arrival(level, now);
            preempt(task, level);
        }
    }
    bpf_iter_scx_dsq_destroy(&it);
}

static int on_alarm(void *map, u32 *key, struct alarm *alarm)
{
    u64 now = bpf_ktime_get_ns();
    u64 first = first_deadline;
    u64 wait;

    if (first <= now) {
        first_deadline = NEVER;
        bpf_rcu_read_lock();
        scan(FRONT, now);
        scan(BACK, now);
        bpf_rcu_read_unlock();
        first = first_deadline;
    }
    /* `begin` starts it again. */
    if (!control.processes)
        return 0;
    wait = scx_bpf_dsq_nr_queued(FRONT) + scx_bpf_dsq_nr_queued(BACK) > 0 ? SCAN_QUEUED : SCAN_LATE;
    if (first != NEVER && first < now + wait)
        wait = first < now + SCAN_SOON ? SCAN_SOON : first - now;
    bpf_timer_start(&alarm->timer, wait, 0);
    return 0;
}

SEC("struct_ops.s/init")
s32 BPF_PROG(init)
{
    u32 zero = 0;
    struct alarm *alarm = bpf_map_lookup_elem(&alarms, &zero);
    s32 error;

    clocks[FRONT] = EPOCH;
    clocks[BACK] = EPOCH;
    show_queued(LEVELS, 0);
    error = scx_bpf_create_dsq(FRONT, -1);
    if (!error)
        error = scx_bpf_create_dsq(BACK, -1);
    if (error || !alarm)
        return error;
    bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
    return bpf_timer_set_callback(&alarm->timer, on_alarm);
}

/* Begins to check deadlines. The daemon calls it when the first process takes part. */
SEC("syscall")
int begin(void *unused)
{
    u32 zero = 0;
    struct alarm *alarm = bpf_map_lookup_elem(&alarms, &zero);

    return alarm ? bpf_timer_start(&alarm->timer, SCAN_SOON, 0) : -2;
}

SEC("struct_ops/ended")
void BPF_PROG(ended, struct scx_exit_info *information)
{
    bpf_probe_read_kernel_str(state.reason, sizeof(state.reason), information->reason);
    bpf_probe_read_kernel_str(state.message, sizeof(state.message), information->msg);
    state.ended = information->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops corank = {
    .select_cpu = (void *)select_cpu,
    .enqueue = (void *)enqueue,
    .dispatch = (void *)dispatch,
    .tick = (void *)tick,
    .running = (void *)running,
    .stopping = (void *)stopping,
    .quiescent = (void *)quiescent,
    .init_task = (void *)init_task,
    .exit_task = (void *)exit_task,
    .enable = (void *)enable,
    .init = (void *)init,
    .exit = (void *)ended,
    /* The kernel ends a scheduler that lets a thread wait for so long. */
    .timeout_ms = 5000,
    .name = "corank",
};
