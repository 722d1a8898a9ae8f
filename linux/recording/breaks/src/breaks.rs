//! The breaks, and where they are in the core.
//!
//! A break must leave memory as safe as it is: it may take a wrong decision, and not break a list.

/// A deliberate break of the core.
pub struct Break {
    /// What is wrong then.
    pub name: &'static str,
    /// The file in `core/src`.
    pub file: &'static str,
    /// The place is the first `was` after this text.
    pub after: &'static str,
    /// The code that is replaced.
    pub was: &'static str,
    /// The code in its place; `BROKEN` is whether the break holds.
    pub becomes: &'static str,
    /// The rules that the check names, in one scene or another.
    pub rules: &'static [&'static str],
    /// Whether what is cut out of a recording cannot show it, because it says nothing of what
    /// should have come.
    pub leaves_no_trace: bool,
}

const OPERATIONS: &str = "scheduling/scheduler/operations.rs";
const QUEUES: &str = "scheduling/scheduler/queues.rs";
const RUN: &str = "scheduling/scheduler/run.rs";
const WAITER: &str = "scheduling/waiter.rs";
const WAITERS: &str = "scheduling/scheduler/waiters.rs";

/// All breaks.
pub const BREAKS: &[Break] = &[
    Break {
        name: "a wake of a blocked coroutine is lost",
        file: OPERATIONS,
        after: "fn wake",
        was: "State::Blocked => {",
        becomes: "State::Blocked if BROKEN => {}
            State::Blocked => {",
        rules: &["W1"],
        leaves_no_trace: false,
    },
    Break {
        name: "a wake during a poll is lost",
        file: OPERATIONS,
        after: "fn wake",
        was: "block.insert(Flags::WOKEN)",
        becomes: "if !BROKEN { block.insert(Flags::WOKEN) }",
        rules: &["W3"],
        leaves_no_trace: false,
    },
    Break {
        name: "a wake moves a ready coroutine to the tail",
        file: OPERATIONS,
        after: "fn wake",
        was: "State::Ready | State::Exited => {}",
        becomes: "State::Ready if BROKEN => { self.dequeue(block); self.enqueue(block) }
            State::Ready | State::Exited => {}",
        rules: &["O2"],
        leaves_no_trace: false,
    },
    Break {
        name: "a new coroutine goes to the head",
        file: OPERATIONS,
        after: "fn admit_with",
        was: "self.enqueue(block);",
        becomes: "if BROKEN { self.enqueue_head(block) } else { self.enqueue(block) }",
        rules: &["O2"],
        leaves_no_trace: false,
    },
    Break {
        name: "a re-prioritisation has no effect",
        file: OPERATIONS,
        after: "block.base_state.set(BaseState::new(priority));",
        was: "self.refresh_plain_level(block, priority);",
        becomes: "if !BROKEN { self.refresh_plain_level(block, priority); }",
        rules: &["R1"],
        leaves_no_trace: false,
    },
    Break {
        name: "a re-prioritisation forgets what is donated",
        file: OPERATIONS,
        after: "if !",
        was: "self.refresh_plain_level(block, priority);",
        becomes: "if BROKEN { self.refresh_to(block, priority) } else {
            self.refresh_plain_level(block, priority) }",
        rules: &["I1", "I4"],
        leaves_no_trace: false,
    },
    Break {
        name: "the tail of a level is picked",
        file: QUEUES,
        after: "fn dequeue_head",
        was: "let block =",
        becomes: "if BROKEN && let Some(tail) = queue.tail.get() {
            self.dequeue(tail);
            return tail;
        }
        let block =",
        rules: &["O2", "R2"],
        leaves_no_trace: false,
    },
    Break {
        name: "the least urgent level is picked",
        file: RUN,
        after: "return Step::Elsewhere;",
        was: "// From here to the poll",
        becomes: "let most_urgent = if BROKEN {
            Priority::of_valid(63 - self.ready.get().bits().leading_zeros() as u8)
        } else {
            most_urgent
        };
        // From here to the poll",
        rules: &["B2", "O1"],
        leaves_no_trace: false,
    },
    Break {
        name: "the most urgent level is not the latest",
        file: QUEUES,
        after: "fn set_ready",
        was: "self.most_urgent.set(ready.most_urgent());",
        becomes:
            "if !self.most_urgent.get().is_some_and(|level| ready.contains(level)) || !BROKEN {
            self.most_urgent.set(ready.most_urgent());
        }",
        rules: &["B2", "O1"],
        leaves_no_trace: false,
    },
    Break {
        name: "a reserved pick comes each time",
        file: "priority/policy.rs",
        after: "fn count",
        was: "if picks < self.every {",
        becomes: "if picks < self.every && !BROKEN {",
        rules: &["B2"],
        leaves_no_trace: true,
    },
    Break {
        name: "a yield keeps the head",
        file: RUN,
        after: "block.remove(Flags::WOKEN);",
        was: "self.enqueue(block);",
        becomes: "if BROKEN { self.enqueue_head(block) } else { self.enqueue(block) }",
        rules: &["O2"],
        leaves_no_trace: false,
    },
    Break {
        name: "a yield loses what is donated",
        file: RUN,
        after: "fn poll<",
        was: "block.remove(Flags::WOKEN);",
        becomes: "if BROKEN { block.set_level(block.base()) }
                block.remove(Flags::WOKEN);",
        rules: &["P5"],
        leaves_no_trace: false,
    },
    Break {
        name: "a coroutine that blocks stays in the queue",
        file: RUN,
        after: "block.state.set(State::Blocked);",
        was: "self.record_blocked(block);",
        becomes: "self.record_blocked(block);
            if BROKEN { self.enqueue(block) }",
        rules: &["S3", "W1"],
        leaves_no_trace: false,
    },
    Break {
        name: "a new level wakes a blocked coroutine",
        file: QUEUES,
        after: "fn move_to_level",
        was: "State::Blocked |",
        becomes: "State::Blocked if BROKEN => {
                block.set_level(level);
                self.enqueue(block);
            }
            State::Blocked |",
        rules: &["S3", "W1"],
        leaves_no_trace: false,
    },
    Break {
        name: "a new level goes to the head",
        file: QUEUES,
        after: "fn move_to_level",
        was: "self.enqueue(block);",
        becomes: "if BROKEN { self.enqueue_head(block) } else { self.enqueue(block) }",
        rules: &["R2"],
        leaves_no_trace: false,
    },
    Break {
        name: "the same level moves to the tail",
        file: WAITERS,
        after: "fn refresh_alone",
        was: "if from != level {",
        becomes: "if from != level || BROKEN {",
        rules: &["R3"],
        leaves_no_trace: true,
    },
    Break {
        name: "an inheritance does not come",
        file: WAITER,
        after: "fn wait_as",
        was: "Scheduler::of(borrower).refresh_level(borrower);",
        becomes: "if !BROKEN { Scheduler::of(borrower).refresh_level(borrower); }",
        rules: &["I1"],
        leaves_no_trace: false,
    },
    Break {
        name: "an inheritance is not given back",
        file: WAITER,
        after: "fn end_loan",
        was: "Scheduler::of(borrower).refresh_level(borrower);",
        becomes: "if !BROKEN { Scheduler::of(borrower).refresh_level(borrower); }",
        rules: &["I4"],
        leaves_no_trace: false,
    },
    Break {
        name: "an inheritance ends at the first of a chain",
        file: WAITERS,
        after: "fn refresh_levels",
        was: "next = loaned.borrower",
        becomes: "next = loaned.borrower.filter(|_| !BROKEN)",
        rules: &["I1", "I4"],
        leaves_no_trace: false,
    },
    Break {
        name: "an unlock gives nothing back",
        file: "sync/mutex.rs",
        after: "fn move_loans",
        was: "[new, old].into_iter()",
        becomes: "[new, old.filter(|_| !BROKEN)].into_iter()",
        rules: &["I4"],
        leaves_no_trace: false,
    },
    Break {
        name: "a slot's next coroutine has the identifier of the last one",
        file: "scheduling/scheduler/slots.rs",
        after: "fn give_slot",
        was: "block.generation.set(generation + 1);",
        becomes: "if !BROKEN { block.generation.set(generation + 1); }",
        rules: &["C4"],
        leaves_no_trace: true,
    },
];

/// What the breaks need besides: a file, and code at its end.
pub const HELPERS: &[(&str, &str)] = &[
    (
        QUEUES,
        "impl Scheduler {
    /// Adds a coroutine to the head of its level's first queue.
    pub(super) fn enqueue_head(&self, block: BlockRef) {
        let queue = self.queue(block.level());
        if queue.is_first_empty() {
            return self.enqueue(block);
        }
        let head = self.follow(queue.head.get());
        block.state.set(State::Ready);
        block.next.set(Link::to(head));
        head.previous.set(Link::to(block));
        queue.head.set(Link::to(block));
    }
}
",
    ),
    (
        WAITERS,
        "impl Scheduler {
    /// Gives a coroutine a level, whatever its waiters say.
    pub(super) fn refresh_to(&self, block: BlockRef, level: Priority) {
        self.refresh_alone(block, level);
    }
}
",
    ),
];
