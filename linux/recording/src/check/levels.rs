//! Effective levels: what follows from bases and donations (rules P5, R1 to R4, I1 to I8).

use super::task::{State, Task};
use super::{Broken, Cause, Checker, Expected};
use crate::format::Id;
use crate::order::Step;

impl Checker<'_> {
    pub(super) fn change_level(&mut self, step: &Step) -> Result<(), Broken> {
        let task = self.task_mut(step.id);
        let state = task.state;
        if task.level == Some(step.level) {
            // In a poll, more may follow before the next pick.
            if !self.polls_any() {
                self.expect_first();
            }
            let name = self.name(step.id);
            return Err((
                "R3",
                format!("{name} has level {} already, and moves", step.level),
            ));
        }
        if state == State::Ready {
            // R2, I3: to the tail of the new level.
            let woken = task.woken;
            self.leave_queue(step.id);
            self.enqueue(step.id, step.level);
            let task = self.task_mut(step.id);
            (task.woken, task.has_moved) = (woken, true);
        } else {
            task.level = Some(step.level);
        }
        self.note_change(step.id);
        Ok(())
    }

    /// Notes that the levels of a coroutine and of its borrowers are to be checked.
    fn note_change(&mut self, id: Id) {
        self.changed.push((id, Cause::Waits));
        let borrowers = self.task_mut(id).borrowers.clone();
        (self.changed).extend(borrowers.into_iter().map(|id| (id, Cause::Waits)));
    }

    pub(super) fn lend(&mut self, step: &Step, borrower: Option<Id>) -> Result<(), Broken> {
        self.find(step)?;
        if let Some(borrower) = borrower {
            self.task_mut(step.id).borrowers.push(borrower);
            self.donations += 1;
            if self.task(borrower).is_some() {
                self.task_mut(borrower).lenders.push(step.id);
                self.changed.push((borrower, Cause::Waits));
            }
        }
        Ok(())
    }

    pub(super) fn unlend(&mut self, step: &Step, borrower: Option<Id>) -> Result<(), Broken> {
        let Some(borrower) = borrower else {
            return Ok(());
        };
        let take = |ids: &mut Vec<Id>, id: Id| {
            let at = ids.iter().position(|&other| other == id);
            at.map(|at| ids.swap_remove(at)).is_some()
        };
        // The lender may have exited.
        let lent = match self.task(step.id) {
            Some(_) => take(&mut self.task_mut(step.id).borrowers, borrower),
            None => false,
        };
        self.donations -= usize::from(lent);
        if !lent && !self.lost_before {
            let (lender, borrower) = (self.name(step.id), self.name(borrower));
            return Err(("I4", format!("{lender} donates nothing to {borrower}")));
        }
        if self.task(borrower).is_some() {
            take(&mut self.task_mut(borrower).lenders, step.id);
            self.changed.push((borrower, Cause::Waits));
        }
        Ok(())
    }

    /// Checks that the levels that may have changed follow from bases and donations (P5).
    pub(super) fn check_levels(&mut self) -> Result<(), Broken> {
        if self.recording.header.settings.demotes {
            self.changed.clear();
        }
        let mut later = Vec::new();
        for (id, cause) in std::mem::take(&mut self.changed) {
            let Some(task) = self.task(id) else { continue };
            let (Some(base), Some(level)) = (task.base, task.level) else {
                continue;
            };
            if task.state == State::Exited {
                continue;
            }
            // An exit ends its donations one by one, and other workers go on meanwhile.
            let lender_level = |&id| {
                let lender: &Task = self.task(id)?;
                lender.level.filter(|_| lender.state != State::Exited)
            };
            let Some(lenders) = task.lenders.iter().map(lender_level).collect() else {
                later.push((id, cause));
                continue;
            };
            let lenders: Vec<u8> = lenders;
            let inherited = lenders.into_iter().min();
            let expected = inherited.map_or(base, |level| level.min(base));
            if level == expected || self.is_in_cycle(id) {
                continue;
            }
            let name = self.name(id);
            self.expected = Some(Expected::Level(id, expected));
            return Err(if level < expected && cause == Cause::Base {
                let text = format!("{name} keeps level {level}, and its base level is {base}");
                ("R1", text)
            } else if level < expected {
                let text = format!(
                    "{name} keeps level {level}, but its base level and lenders give {expected}: \
                     an inheritance was not given back"
                );
                ("I4", text)
            } else if inherited.is_some_and(|inherited| inherited < base) {
                let text = format!(
                    "{name} has level {level}, but a coroutine of level {expected} waits for it"
                );
                ("I1", text)
            } else {
                let text = format!("{name} has level {level}, and its base level is {expected}");
                ("R1", text)
            });
        }
        self.changed = later;
        Ok(())
    }

    /// Tests whether a coroutine waits for itself, by way of others (I8).
    fn is_in_cycle(&self, id: Id) -> bool {
        let mut seen = Vec::new();
        let mut next = vec![id];
        while let Some(at) = next.pop() {
            for &borrower in self.task(at).iter().flat_map(|task| &task.borrowers) {
                if borrower == id {
                    return true;
                }
                if !seen.contains(&borrower) {
                    seen.push(borrower);
                    next.push(borrower);
                }
            }
        }
        false
    }
}
