//! How long coroutines waited and ran, and what held them up.

use crate::format::{Id, Kind, Role};
use crate::order::{Ordered, Step, StepKind};
use crate::read::Recording;
use std::collections::{BTreeMap, HashMap};

/// The inversions and polls that a summary lists, the longest of each.
const LISTED: usize = 20;

/// Waits from ready to the poll, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits(Vec<u64>);

impl Waits {
    /// Returns the wait that this share of all do not exceed; `None` without waits.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let last = self.0.len().checked_sub(1)?;
        let at = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(at.saturating_sub(1).min(last)).copied()
    }

    /// Returns how many there were.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// The figures of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelSummary {
    /// Polls that ended in the recording.
    pub polls: u64,
    /// Their time.
    pub run: u64,
    /// Waits that ended in the recording.
    pub waits: Waits,
    /// How often less urgent polls held up a coroutine of the level.
    pub inversions: u64,
    /// The time of these.
    pub inverted: u64,
}

/// The figures of all coroutines of one name and one base level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSummary {
    /// The coroutines.
    pub coroutines: u64,
    /// The polls and waits.
    pub polls: LevelSummary,
}

/// A poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The coroutine.
    pub id: Id,
    /// The number of the ring, in [`Recording::rings`].
    pub ring: usize,
    /// Its level at the beginning.
    pub level: u8,
    /// When it began and ended, in nanoseconds.
    pub time: (u64, u64),
    /// When the coroutine became ready, if that is known.
    pub ready: Option<Ready>,
    /// How it ended; `None` if the recording ends before.
    pub end: Option<Kind>,
}

/// How a coroutine became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// When, in nanoseconds.
    pub time: u64,
    /// The ring of the thread that made it ready.
    pub ring: usize,
    /// The coroutine that ran there, if one did.
    pub by: Option<Id>,
    /// By creation, wake or yield: `Spawn`, `Ready` or `Yield`.
    pub kind: Kind,
}

/// A coroutine that waited while less urgent ones kept all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inversion {
    /// The coroutine that waited.
    pub id: Id,
    /// Its level when the inversion began.
    pub level: u8,
    /// When it began and ended, in nanoseconds.
    pub time: (u64, u64),
    /// What ran when it began: the coroutines and their levels.
    pub running: Vec<(Id, u8)>,
}

/// What a recording says about the polls and waits of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// When the first and the last step were.
    pub time: (u64, u64),
    /// By level.
    pub levels: BTreeMap<u8, LevelSummary>,
    /// By name and base level.
    pub tasks: BTreeMap<(String, u8), TaskSummary>,
    /// The longest inversions, the longest first.
    pub inversions: Vec<Inversion>,
    /// The polls in the order of their ends.
    pub polls: Vec<Poll>,
}

/// A coroutine while steps are read.
struct Known {
    base: u8,
    level: u8,
    ready: Option<Ready>,
    inverted: Option<Inversion>,
    key: (String, u8),
}

struct Reading<'a> {
    recording: &'a Recording,
    /// How many workers take a level with those of the same role.
    workers: usize,
    known: HashMap<Id, Known>,
    /// The poll of each ring, and the level that it has now.
    running: Vec<Option<Poll>>,
    levels: Vec<u8>,
    /// When the last poll of each level ended.
    ended: [u64; 64],
    summary: Summary,
}

impl Summary {
    /// Summarises a recording.
    #[must_use]
    pub fn of(recording: &Recording) -> Self {
        let steps = Ordered::of(recording).steps;
        let time = match (steps.first(), steps.last()) {
            (Some(first), Some(last)) => (first.time, last.time.max(first.time)),
            _ => (recording.header.began, recording.header.began),
        };
        let mut reading = Reading {
            recording,
            workers: recording.header.settings.workers.max(1) as usize,
            known: HashMap::new(),
            running: vec![None; recording.rings.len()],
            levels: vec![0; recording.rings.len()],
            ended: [0; 64],
            summary: Self {
                time,
                levels: BTreeMap::new(),
                tasks: BTreeMap::new(),
                inversions: Vec::new(),
                polls: Vec::new(),
            },
        };
        for step in &steps {
            reading.step(step);
        }
        reading.finish(time.1)
    }

    /// Returns the longest polls, the longest first.
    #[must_use]
    pub fn longest_polls(&self) -> Vec<Poll> {
        let mut polls = self.polls.clone();
        polls.sort_by_key(|poll| std::cmp::Reverse(poll.time.1.saturating_sub(poll.time.0)));
        polls.truncate(LISTED);
        polls
    }
}

impl Reading<'_> {
    fn known(&mut self, step: &Step, base: u8) -> &mut Known {
        let recording = self.recording;
        self.known.entry(step.id).or_insert_with(|| Known {
            base,
            level: step.level,
            ready: None,
            inverted: None,
            key: (short_name(recording.name(step.id)), base),
        })
    }

    fn step(&mut self, step: &Step) {
        let StepKind::Of(kind) = step.kind else {
            return;
        };
        match kind {
            Kind::Spawn => {
                // The slot's former coroutine has exited.
                self.known.remove(&step.id);
                let key = self.known(step, step.level).key.clone();
                self.summary.tasks.entry(key).or_default().coroutines += 1;
                self.become_ready(step, kind);
            }
            Kind::Ready => self.become_ready(step, kind),
            Kind::Pick => self.pick(step),
            Kind::Yield => {
                self.end_poll(step, kind);
                self.become_ready(step, kind);
            }
            Kind::Block | Kind::Finish | Kind::Panic | Kind::Cancel => self.end_poll(step, kind),
            Kind::Level => {
                let known = self.known(step, step.level);
                let more_urgent = step.level < known.level;
                known.level = step.level;
                if more_urgent && known.ready.is_some() && known.inverted.is_none() {
                    self.begin_inversion(step);
                }
                for (poll, level) in self.running.iter().zip(&mut self.levels) {
                    if poll.is_some_and(|poll| poll.id == step.id) {
                        self.ended[usize::from(*level & 63)] = step.time;
                        *level = step.level;
                    }
                }
            }
            Kind::Base => self.known(step, step.level).base = step.level,
            _ => {}
        }
    }

    fn become_ready(&mut self, step: &Step, kind: Kind) {
        let by = self.running.get(step.ring).copied().flatten();
        let by = by.map(|poll| poll.id);
        let known = self.known(step, step.level);
        known.level = step.level;
        known.ready = Some(Ready {
            time: step.time,
            ring: step.ring,
            by,
            kind,
        });
        known.inverted = None;
        self.begin_inversion(step);
    }

    /// Begins an inversion if all workers are in polls and one of these is less urgent.
    fn begin_inversion(&mut self, step: &Step) {
        let role = |ring: usize| self.recording.rings.get(ring).map(|ring| ring.role);
        let polls = (self.running.iter().enumerate()).filter_map(|(ring, poll)| {
            let takes = self.recording.rings.get(ring)?.takes;
            let is_for_it = takes >> (step.level & 63) & 1 == 1 && role(ring) != Some(Role::Spare);
            poll.filter(|_| is_for_it)
                .map(|poll| (poll.id, self.levels[ring]))
        });
        let running: Vec<_> = polls.collect();
        let less_urgent = running.iter().any(|&(_, level)| level > step.level);
        if running.len() < self.workers || !less_urgent {
            return;
        }
        let inversion = Inversion {
            id: step.id,
            level: step.level,
            time: (step.time, step.time),
            running,
        };
        self.known(step, step.level).inverted = Some(inversion);
        let level = self.summary.levels.entry(step.level).or_default();
        level.inversions += 1;
    }

    fn pick(&mut self, step: &Step) {
        let known = self.known(step, step.level);
        known.level = step.level;
        let ready = known.ready.take();
        let (key, inverted) = (known.key.clone(), known.inverted.take());
        if let Some(ready) = ready {
            let wait = step.time.saturating_sub(ready.time);
            let summary = &mut self.summary;
            let level = summary.levels.entry(step.level).or_default();
            level.waits.0.push(wait);
            let task = summary.tasks.entry(key).or_default();
            task.polls.waits.0.push(wait);
        }
        if let Some(inversion) = inverted {
            self.end_inversion(inversion, step.time);
        }
        if let Some(running) = self.running.get_mut(step.ring) {
            self.levels[step.ring] = step.level;
            *running = Some(Poll {
                id: step.id,
                ring: step.ring,
                level: step.level,
                time: (step.time, step.time),
                ready,
                end: None,
            });
        }
    }

    /// Ends an inversion: now if a less urgent poll is in progress, or when the last one ended.
    fn end_inversion(&mut self, mut inversion: Inversion, now: u64) {
        let is_less_urgent = |level: u8| level > inversion.level;
        let mut held_up = self.running.iter().zip(&self.levels);
        let end = if held_up.any(|(poll, &level)| poll.is_some() && is_less_urgent(level)) {
            now
        } else {
            let ended = &self.ended[usize::from(inversion.level & 63) + 1..];
            ended.iter().copied().max().unwrap_or(0)
        };
        inversion.time.1 = end.clamp(inversion.time.0, now.max(inversion.time.0));
        let lasted = inversion.time.1 - inversion.time.0;
        let level = self.summary.levels.entry(inversion.level).or_default();
        level.inverted += lasted;
        self.summary.inversions.push(inversion);
    }

    fn end_poll(&mut self, step: &Step, kind: Kind) {
        let is_its = |poll: &Option<Poll>| poll.is_some_and(|poll| poll.id == step.id);
        let ring = self.running.iter().position(is_its);
        let key = self.known(step, step.level).key.clone();
        if kind != Kind::Yield && kind != Kind::Block {
            self.known.remove(&step.id);
        }
        let Some((ring, mut poll)) = ring.and_then(|at| Some((at, self.running[at].take()?)))
        else {
            return;
        };
        poll.time.1 = step.time.max(poll.time.0);
        poll.end = Some(kind);
        let ran = poll.time.1 - poll.time.0;
        self.ended[usize::from(self.levels[ring] & 63)] = poll.time.1;
        let level = self.summary.levels.entry(poll.level).or_default();
        let task = self.summary.tasks.entry(key).or_default();
        for figures in [level, &mut task.polls] {
            figures.polls += 1;
            figures.run += ran;
        }
        self.summary.polls.push(poll);
    }

    fn finish(mut self, end: u64) -> Summary {
        for mut poll in self.running.into_iter().flatten() {
            poll.time.1 = end.max(poll.time.0);
            self.summary.polls.push(poll);
        }
        let mut summary = self.summary;
        for level in summary.levels.values_mut() {
            level.waits.0.sort_unstable();
        }
        for task in summary.tasks.values_mut() {
            task.polls.waits.0.sort_unstable();
        }
        let lasted = |inversion: &Inversion| inversion.time.1 - inversion.time.0;
        (summary.inversions).sort_by_key(|inversion| std::cmp::Reverse(lasted(inversion)));
        summary.inversions.truncate(LISTED);
        summary
    }
}

/// Returns the name of a function's future without what all of them have.
#[must_use]
pub fn short_name(name: Option<&str>) -> String {
    name.unwrap_or("(no name)").replace("::{{closure}}", "")
}
