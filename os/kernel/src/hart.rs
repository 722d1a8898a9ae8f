//! One hardware thread: its page, its worker handle and its main loop.
//!
//! All harts serve one executor, so each always takes the most urgent coroutine that is ready
//! anywhere (rule H2). A hart has one stack. While the kernel runs, `tp` is the address of the
//! hart's page. The kernel runs with interrupts off and never takes an interrupt. It checks for
//! pending ones between two coroutines. It sleeps with `wfi`, which a pending interrupt ends even
//! so. Therefore no interrupt handler waits for a lock that is held on its own hart.
//!
//! Harts reach each other in two ways. A *call* (a software interrupt) ends `wfi` and user mode.
//! The hart then checks again what there is to do. A *remote fence* makes a hart forget
//! translations. OpenSBI serves it above the kernel, so no hart waits for one that waits for a
//! lock.
use crate::boot::Machine;
use crate::memory::kernel_space;
use crate::stretch::{self, Work};
use crate::{clock, device, println, trap, vdso};
use corank::image::CONTEXT_SLOT;
use corank::{Levels, Priority, SharedExecutor, Step, SystemView, Worker};
use core::arch::asm;
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use core::task::{RawWaker, RawWakerVTable, Waker};
use sbi_rt::HartMask;
use spin::Once;

/// The number of harts that the kernel has room for.
pub(crate) const MAX_HARTS: usize = 8;

/// The executor that all harts serve.
static EXECUTOR: Once<SharedExecutor> = Once::new();

/// The number of harts that have started.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// The number of harts that may serve the executor.
///
/// They are those with the lowest indices. The others rest.
static LIMIT: AtomicUsize = AtomicUsize::new(MAX_HARTS);

/// A hart's page.
///
/// The first part is what `trap.s` needs while user mode's address space is in force. It knows this
/// layout.
#[repr(C, align(4096))]
struct Page {
    /// Room for user registers on the way in and out: a0, a1, tp.
    scratch: [usize; 3],
    kernel_satp: usize,
    /// 1 if the hart has no address-space identifiers, so that each change of address space empties
    /// its buffers.
    flush: usize,
    context: usize,
    stack: usize,
    leave: usize,
    kernel_trap: usize,
    emergency_stack: usize,
    // From here on the kernel's own.
    index: usize,
    float_owner: Cell<u64>,
    /// The scheduler's context slot: which executor runs on this hart.
    context_slot: Cell<*const ()>,
    float_on: Cell<bool>,
    /// Its worker handle, which lies on its own stack.
    ///
    /// It is null while the hart rests.
    worker: Cell<*const Worker<'static>>,
    /// The value that its worker was given last; see [`set_interruptible`].
    interruptible: Cell<bool>,
    /// Set when this hart has called itself.
    called: Cell<bool>,
    /// The time at which its next clock tick is due.
    next_tick: Cell<u64>,
    /// Its number for OpenSBI and the device tree.
    ///
    /// Other harts read it.
    id: usize,
    /// The address space of the program that runs on it in user mode, 0 in the kernel.
    ///
    /// Other harts read it.
    user_satp: AtomicUsize,
    /// The number of rounds that its main loop has made.
    ///
    /// Other harts read it.
    rounds: AtomicU64,
}

// What trap.s and the scheduler's image say of the layout.
const _: () = assert!(
    core::mem::offset_of!(Page, scratch) == 0
        && core::mem::offset_of!(Page, kernel_satp) == 24
        && core::mem::offset_of!(Page, flush) == 32
        && core::mem::offset_of!(Page, context) == 40
        && core::mem::offset_of!(Page, stack) == 48
        && core::mem::offset_of!(Page, leave) == 56
        && core::mem::offset_of!(Page, kernel_trap) == 64
        && core::mem::offset_of!(Page, emergency_stack) == 72
        && core::mem::offset_of!(Page, context_slot) == CONTEXT_SLOT
        && size_of::<Page>() == 4096
);

/// A hart's page and a small stack for the report of a trap in the kernel.
struct Place {
    page: UnsafeCell<MaybeUninit<Page>>,
    emergency: UnsafeCell<[usize; 1024]>,
}

// SAFETY: each place is used by the hart of its index alone.
unsafe impl Sync for Place {}

/// The place of each hart.
///
/// It lies apart from the other statics, which fit into one page without it.
#[unsafe(link_section = ".bss.harts")]
static PLACES: [Place; MAX_HARTS] = [const {
    Place {
        page: UnsafeCell::new(MaybeUninit::uninit()),
        emergency: UnsafeCell::new([0; 1024]),
    }
}; MAX_HARTS];

/// Returns the physical address of the page of the hart with this index.
pub(crate) fn page_address(index: usize) -> usize {
    PLACES[index].page.get() as usize
}

fn this() -> &'static Page {
    let tp: usize;
    // SAFETY: `tp` is the address of the hart's page from `start` on; the page stays for ever.
    unsafe {
        asm!("mv {}, tp", out(reg) tp, options(nomem, nostack, preserves_flags));
        &*(tp as *const Page)
    }
}

/// Returns the index of this hart, from 0 to [`MAX_HARTS`] - 1.
pub(crate) fn index() -> usize {
    this().index
}

/// Returns the pages of the harts that run, for what other harts may read of them.
fn all() -> impl Iterator<Item = &'static Page> {
    PLACES[..count()].iter().map(|place| {
        // SAFETY: the page was written before its hart was counted; only its atomics and what never
        // changes are used.
        unsafe { (*place.page.get()).assume_init_ref() }
    })
}

/// Returns how many harts serve the executor.
pub(crate) fn serving() -> usize {
    count().min(LIMIT.load(Ordering::Relaxed))
}

/// Lets so many harts serve the executor from now on, at least one.
///
/// Returns how many did before. The others notice when they come back to their main loop.
pub(crate) fn set_limit(harts: usize) -> usize {
    let before = serving();
    LIMIT.store(harts.max(1), Ordering::Release);
    before
}

/// Returns how many harts there are.
pub(crate) fn count() -> usize {
    RUNNING.load(Ordering::Acquire)
}

/// Returns the executor, which all harts serve.
///
/// # Panics
/// Before the first hart has started.
pub(crate) fn executor() -> &'static SharedExecutor {
    EXECUTOR.get().expect("made when the first hart starts")
}

/// Tests whether anything is ready that no hart serves and that is strictly more urgent than
/// `priority`.
#[inline]
pub(crate) fn is_more_urgent_ready(priority: Priority) -> bool {
    // What the executor publishes (see `clock::make_executor`), without asking the executor: each
    // system call comes here.
    let ready = clock::system_page().ready.load(Ordering::Relaxed);
    let ready = Levels::from_bits(ready).most_urgent();
    ready.is_some_and(|ready| ready.is_more_urgent_than(priority))
}

/// Tests whether the coroutine that calls this should yield.
///
/// It should if an interrupt is pending, or if something strictly more urgent is ready. False where
/// no coroutine runs.
#[inline]
pub(crate) fn has_more_urgent_work() -> bool {
    let pending = riscv::register::sip::read().bits() != 0;
    let ready = clock::system_page().ready.load(Ordering::Relaxed) != 0;
    (pending || ready) && must_give_way(pending)
}

/// Tests whether anything has arrived that the executor takes in when the calling coroutine yields.
///
/// False where no coroutine runs.
pub(crate) fn has_something_to_take_in() -> bool {
    let arriving = clock::system_page().arriving.load(Ordering::Relaxed);
    arriving != 0 && corank::current().is_some()
}

#[cold]
fn must_give_way(pending: bool) -> bool {
    let current = corank::current().and_then(|coroutine| executor().priority(coroutine));
    current.is_some_and(|priority| pending || is_more_urgent_ready(priority))
}

/// Returns the number by which OpenSBI and the interrupt controller know this hart.
pub(crate) fn id() -> usize {
    this().id
}

/// Returns the time at which the next clock tick of this hart is due.
pub(crate) fn next_tick() -> &'static Cell<u64> {
    &this().next_tick
}

/// Returns the owner of the floating-point registers that this hart holds.
pub(crate) fn float_owner() -> &'static Cell<u64> {
    &this().float_owner
}

/// Returns whether the floating-point unit is on for user mode.
pub(crate) fn float_on() -> &'static Cell<bool> {
    &this().float_on
}

/// Enters the kernel's address space on this hart, with its page in `tp`, and sets up traps.
///
/// # Safety
/// Once per hart, in the order of their indices, after the kernel's address space has been built.
/// `id` is this hart's.
pub(crate) unsafe fn start(index: usize, id: usize) {
    let (entry, leave) = trap::trampoline_entries();
    let kernel_satp = kernel_space::satp();
    let tp = kernel_space::hart_page(index);
    let emergency = PLACES[index].emergency.get();
    let page = Page {
        scratch: [0; 3],
        kernel_satp,
        flush: usize::from(!has_identifiers(kernel_satp)),
        context: 0,
        stack: 0,
        leave,
        kernel_trap: trap::kernel_trap as *const () as usize,
        emergency_stack: emergency as usize + size_of_val(&PLACES[index].emergency),
        index,
        float_owner: Cell::new(0),
        float_on: Cell::new(false),
        context_slot: Cell::new(core::ptr::null()),
        worker: Cell::new(core::ptr::null()),
        interruptible: Cell::new(false),
        called: Cell::new(false),
        next_tick: Cell::new(0),
        id,
        user_satp: AtomicUsize::new(0),
        rounds: AtomicU64::new(0),
    };
    // SAFETY: the caller gives each hart a place of its own. The kernel is mapped at its own
    // addresses in its address space, so that execution goes on there. User programs may read the
    // clock (`scounteren`). Interrupts from the clock and from devices end user mode and `wfi`;
    // `sstatus` keeps them off in the kernel. The scheduler's image was written by the first hart,
    // before this.
    unsafe {
        (*PLACES[index].page.get()).write(page);
        asm!(
            "csrw satp, {satp}",
            "sfence.vma",
            "mv tp, {tp}",
            "csrw stvec, {entry}",
            "csrw scounteren, {counters}",
            "csrw sie, {interrupts}",
            "fence.i",
            satp = in(reg) kernel_satp,
            tp = in(reg) tp,
            entry = in(reg) entry,
            counters = in(reg) 0b111,
            interrupts = in(reg) 1 << 1 | 1 << 5 | 1 << 9,
        );
    }
    if index == 0 {
        // SAFETY: the image is mapped now, and the scheduler has not been used yet.
        unsafe { vdso::attach() };
    }
    trap::init();
    EXECUTOR.call_once(clock::make_executor);
    RUNNING.store(index + 1, Ordering::Release);
}

/// What the hart that is being started by another one finds.
///
/// `start.s` knows its name and layout.
#[repr(C)]
struct Start {
    satp: AtomicUsize,
    stack: AtomicUsize,
    index: AtomicUsize,
}

#[unsafe(no_mangle)]
static START: Start = Start {
    satp: AtomicUsize::new(0),
    stack: AtomicUsize::new(0),
    index: AtomicUsize::new(0),
};

unsafe extern "C" {
    fn start_other();
}

/// Starts all other harts of the machine, one after the other.
///
/// If OpenSBI cannot start one, that hart and all behind it are left out.
///
/// A hart may come to the kernel's first instruction instead. OpenSBI 1.1, for one, says that a
/// hart shall start and only then where. A hart that checks in between goes where the first hart
/// went. So what it needs lies at a fixed place, and that entry leads there, too, from the second
/// time on.
pub(crate) fn start_others(machine: &Machine) {
    for (index, &id) in machine.harts().iter().enumerate().skip(1) {
        START.satp.store(kernel_space::satp(), Ordering::Relaxed);
        START
            .stack
            .store(kernel_space::hart_stack(index), Ordering::Relaxed);
        START.index.store(index, Ordering::Release);
        let address = start_other as *const () as usize;
        let started = sbi_rt::hart_start(id, address, 0);
        if started.is_err() {
            println!("corank: hart {id} cannot be started: {:?}", started.error);
            return;
        }
        while RUNNING.load(Ordering::Acquire) == index {
            // In a machine that counts instructions harts take turns, and one that spins keeps its
            // turn.
            clock::nap();
        }
    }
}

/// Runs as the first function of a hart that another one has started.
///
/// It runs on the hart's own stack, in the kernel's address space.
#[unsafe(no_mangle)]
extern "C" fn boot_other(id: usize) {
    let index = START.index.load(Ordering::Acquire);
    // SAFETY: each hart comes here once, in order: the next one is started when this one is
    // counted.
    unsafe { self::start(index, id) };
    clock::start();
}

/// Wakes a hart, or ends its user mode, so that it checks again what there is to do.
fn call(index: usize) {
    if index == self::index() {
        this().called.set(true);
    } else if let Some(page) = all().nth(index) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, page.id));
    }
}

/// Returns whether this hart has called itself since this was last asked.
pub(crate) fn take_own_call() -> bool {
    this().called.replace(false)
}

/// Returns a waker that [calls](call) a hart.
///
/// Its data is the hart's index.
fn waker(index: usize) -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |index| RawWaker::new(index, &TABLE),
        |index| call(index.addr()),
        |index| call(index.addr()),
        |_| (),
    );
    // SAFETY: the data is no pointer to anything; the functions may be called on every hart.
    unsafe { Waker::new(core::ptr::without_provenance(index), &TABLE) }
}

/// Sleeps for a moment, whatever is pending.
///
/// For a hart that has spun for long. A host that runs it can then give the processor to other
/// harts, such as the one that this hart waits for.
#[cold]
pub(crate) extern "C" fn doze() {
    const CLOCK: usize = 1 << 5;
    let enabled: usize;
    // SAFETY: what is enabled ends `wfi`, and is not taken in the kernel.
    unsafe { asm!("csrrw {}, sie, {}", out(reg) enabled, in(reg) CLOCK) };
    clock::doze();
    // SAFETY: as it was.
    unsafe { asm!("csrw sie, {}", in(reg) enabled) };
}

/// Sets whether this hart is called when something is ready that is more urgent than what it runs.
pub(crate) fn set_interruptible(interruptible: bool) {
    // It rarely changes, and this hart's page is at hand.
    let page = this();
    if page.interruptible.replace(interruptible) == interruptible {
        return;
    }
    // SAFETY: null, or what lies on this hart's stack as long as it serves.
    if let Some(worker) = unsafe { page.worker.get().as_ref() } {
        worker.set_interruptible(interruptible);
    }
}

/// Sets whether the poll that this hart makes ends soon, as all polls do except in user mode.
///
/// If it does, what the poll makes ready is left for this hart, unless more is ready than one hart
/// takes. Calling another hart would cost more. Call this before user mode and after it.
pub(crate) fn set_brief(brief: bool) {
    if count() == 1 {
        return;
    }
    // SAFETY: null, or what lies on this hart's stack as long as it serves.
    if let Some(worker) = unsafe { this().worker.get().as_ref() } {
        worker.set_brief(brief);
    }
}

/// Declares that this hart may run user mode in the address space that `satp` names, until
/// [`leave_user`].
///
/// Call it under the lock of that address space. A hart that changes the address space later, under
/// the same lock, then knows which harts may still hold old translations.
pub(crate) fn enter_user(satp: usize) {
    this().user_satp.store(satp, Ordering::Relaxed);
}

/// Declares that this hart is back from user mode.
pub(crate) fn leave_user() {
    this().user_satp.store(0, Ordering::Relaxed);
}

/// Returns the numbers of the other harts that may be in user mode in this address space.
///
/// Called under its lock.
fn others_in(satp: usize) -> impl Iterator<Item = usize> {
    let index = index();
    all()
        .filter(move |page| page.index != index && page.user_satp.load(Ordering::Relaxed) == satp)
        .map(|page| page.id)
}

/// Makes the other harts that run this address space now forget its translations.
///
/// The harts that don't run it now forget them before they run it again (see
/// [`crate::memory::address_space`]).
pub(crate) fn forget_elsewhere(satp: usize) {
    for id in others_in(satp) {
        let space = satp >> 44 & 0xffff;
        let done =
            sbi_rt::remote_sfence_vma_asid(HartMask::from_mask_base(1, id), 0, usize::MAX, space);
        assert!(done.is_ok(), "OpenSBI serves remote fences");
    }
}

/// Ends user mode on the other harts that run this address space now.
pub(crate) fn interrupt_elsewhere(satp: usize) {
    for id in others_in(satp) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, id));
    }
}

/// Waits until everything is over that was being polled, cancelled or dropped on any hart at the
/// time of the call.
///
/// Nothing is kept of it then.
pub(crate) async fn settle() {
    // What ends on one hart may cancel what another hart polls, and that ends only in the round
    // behind. So it is over when two rounds in a row have ended nothing.
    let mut live = executor().live();
    let mut quiet = 0;
    while count() > 1 && quiet < 2 {
        all_come_back().await;
        let before = core::mem::replace(&mut live, executor().live());
        quiet = if live == before { quiet + 1 } else { 0 };
    }
    executor().trim();
}

/// The harts that sleep until another one begins a round of its main loop, one bit for each index.
///
/// A hart that begins a round takes them out and wakes them.
static AWAIT_A_ROUND: AtomicUsize = AtomicUsize::new(0);

/// Waits until every hart has come back to its main loop.
async fn all_come_back() {
    // What was asked for from outside, like the end of a call, is taken in before the next poll, by
    // this hart or another one.
    corank::yield_now().await;
    let rounds = || all().map(|page| page.rounds.load(Ordering::Acquire));
    let before: heapless::Vec<u64, MAX_HARTS> = rounds().collect();
    // Whatever a hart does, it comes back for a call. Polls end early, user mode and sleep end at
    // once.
    call_all(usize::MAX);
    let is_waiting = || rounds().zip(&before).any(|(now, before)| now == *before);
    while is_waiting() {
        // It stays ready, so that nothing less urgent comes first. But unless this hart is itself
        // to come back it sleeps rather than spins: the host may need the processor for the other
        // harts. The bit is set before the check. So a hart that begins a round after the check
        // wakes this one. Any interrupt wakes it, too, such as a call for something more urgent.
        set_interruptible(true);
        AWAIT_A_ROUND.fetch_or(1 << index(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let own = this().rounds.load(Ordering::Relaxed);
        if before.get(index()) != Some(&own) && is_waiting() {
            riscv::asm::wfi();
        }
        corank::yield_now().await;
    }
}

/// Calls the harts whose bit is set.
fn call_all(harts: usize) {
    for page in all().filter(|page| harts >> page.index & 1 != 0) {
        sbi_rt::send_ipi(HartMask::from_mask_base(1, page.id));
    }
}

/// Tests whether the hart tells address spaces apart in its translation buffers.
fn has_identifiers(kernel_satp: usize) -> bool {
    let read: usize;
    // SAFETY: the kernel's address space with another identifier is the same address space.
    unsafe {
        asm!(
            "csrw satp, {all}",
            "csrr {read}, satp",
            "csrw satp, {kernel}",
            "sfence.vma",
            all = in(reg) kernel_satp | 0xffff << 44,
            read = out(reg) read,
            kernel = in(reg) kernel_satp,
        );
    }
    read >> 44 & 0xffff == 0xffff
}

/// Forgets what this hart remembers of the address space that `satp` names, and of the instructions
/// in it.
pub(crate) fn forget(satp: usize) {
    // SAFETY: forgetting translations and instructions is always allowed.
    unsafe { asm!("sfence.vma zero, {}", "fence.i", in(reg) satp >> 44 & 0xffff) };
}

/// Forgets what this hart remembers of the page of `address`, in every address space.
pub(crate) fn forget_page(address: usize) {
    // SAFETY: as in `forget`.
    unsafe { asm!("sfence.vma {}, zero", in(reg) address) };
}

/// The number of polls in a row after which a hart serves interrupts, whatever is ready.
const POLLS_PER_LOOK: u64 = 64;

/// The view in which pending interrupts are more urgent than any coroutine.
///
/// The most urgent coroutines are the exception: interrupts wait for them (see [`POLLS_PER_LOOK`]).
struct Interrupts;

impl SystemView for Interrupts {
    #[inline]
    fn most_urgent_elsewhere(&self) -> Option<Priority> {
        stretch::pick();
        let is_any = riscv::register::sip::read().bits() != 0;
        is_any.then_some(Priority::MOST_URGENT)
    }
}

/// Serves the executor, or rests, for ever.
pub(crate) fn run() -> ! {
    loop {
        serve();
        rest();
    }
}

/// Runs the hart's main loop until the hart shall rest.
///
/// It polls the most urgent coroutine, again and again, and sleeps when none is ready.
fn serve() {
    let worker = executor().worker(waker(index()));
    this().worker.set(&raw const worker);
    set_brief(true);
    // As a new worker is.
    this().interruptible.set(false);
    stretch::begin();
    while go_round() {
        stretch::works_on(Work::Interrupts);
        worker.within(take_interrupts);
        stretch::pick();
        let (step, _) = worker.run_some(&Interrupts, POLLS_PER_LOOK);
        // A call that comes after the last check is pending, and so ends `wfi` at once.
        if step == Step::Idle && !take_own_call() {
            stretch::pick();
            riscv::asm::wfi();
            stretch::begin();
        }
    }
    this().worker.set(core::ptr::null());
}

/// Serves nothing but interrupts, until the hart shall serve the executor again.
fn rest() {
    loop {
        take_interrupts();
        // Behind the interrupts: a call that has been taken there was for this.
        if go_round() {
            return;
        }
        riscv::asm::wfi();
    }
}

/// Begins a round of the main loop.
///
/// Returns whether this hart shall serve the executor in it.
fn go_round() -> bool {
    let page = this();
    let rounds = page.rounds.load(Ordering::Relaxed) + 1;
    // Release: what was done in the round before is over for a hart that sees this one begin.
    page.rounds.store(rounds, Ordering::Release);
    // Between the store and the load: a hart that is about to sleep sees the new round, or this
    // hart sees its bit.
    fence(Ordering::SeqCst);
    if AWAIT_A_ROUND.load(Ordering::Relaxed) != 0 {
        call_all(AWAIT_A_ROUND.swap(0, Ordering::SeqCst) & !(1 << page.index));
    }
    page.index < LIMIT.load(Ordering::Acquire)
}

/// Serves the interrupts that are pending.
///
/// Costs one read of a register when none is.
pub(crate) fn take_interrupts() {
    let pending = riscv::register::sip::read();
    if pending.ssoft() {
        take_call();
    }
    if pending.stimer() {
        clock::tick();
    }
    if pending.sext() {
        device::interrupt();
    }
}

/// Takes a call.
///
/// The hart that was called checks what there is to do next.
pub(crate) fn take_call() {
    // SAFETY: clears the software interrupt, which says no more than that.
    unsafe { asm!("csrc sip, {}", in(reg) 1 << 1) };
}
