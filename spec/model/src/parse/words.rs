//! The words of one line.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str::{FromStr, SplitAsciiWhitespace};

use crate::model::{Outcome, State};

/// Words that have a meaning after a name, and so cannot be names.
const RESERVED: [&str; 6] = ["none", "refused", "waits", "ok", "cancelled", "panicked"];

pub(super) struct Words<'a> {
    rest: core::iter::Peekable<SplitAsciiWhitespace<'a>>,
}

impl<'a> Words<'a> {
    /// Returns the words of a line, up to a comment.
    pub(super) fn of(line: &'a str) -> Words<'a> {
        let text = line.split('#').next().unwrap_or("");
        Words {
            rest: text.split_ascii_whitespace().peekable(),
        }
    }

    pub(super) fn optional(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    /// Takes the next word if it is this one.
    pub(super) fn optional_word(&mut self, word: &str) -> bool {
        self.rest.next_if(|&next| next == word).is_some()
    }

    pub(super) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.rest.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub(super) fn exactly(&self, word: &str, wanted: &str) -> Result<(), String> {
        match word == wanted {
            true => Ok(()),
            false => Err(format!("expected `{wanted}`, found `{word}`")),
        }
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is one word too many")),
        }
    }

    pub(super) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        number(word).ok_or_else(|| format!("{what} must be a number, and fit, not `{word}`"))
    }

    /// Returns a number, if the next word begins with a digit.
    pub(super) fn optional_number<T: FromStr>(&mut self) -> Result<Option<T>, String> {
        match self.rest.peek() {
            Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => {
                self.number("a level").map(Some)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn at_least(&mut self, least: u32, what: &str) -> Result<u32, String> {
        match self.number(what)? {
            number if number >= least => Ok(number),
            number => Err(format!("{what} must be at least {least}, not {number}")),
        }
    }

    pub(super) fn level(&mut self) -> Result<u8, String> {
        match self.number("a level")? {
            level @ 0..=63 => Ok(level),
            level => Err(format!("a level is a number from 0 to 63, not {level}")),
        }
    }

    pub(super) fn level_or_none(&mut self) -> Result<Option<u8>, String> {
        match self.optional_word("none") {
            true => Ok(None),
            false => self.level().map(Some),
        }
    }

    pub(super) fn bitmap(&mut self) -> Result<u64, String> {
        if self.optional_word("none") {
            return Ok(0);
        }
        let mut bits = 1 << self.level()?;
        while self.rest.peek().is_some() {
            let bit = 1 << self.level()?;
            if bit <= bits {
                return Err("the levels of a bitmap must ascend".to_string());
            }
            bits |= bit;
        }
        Ok(bits)
    }

    pub(super) fn state(&mut self) -> Result<State, String> {
        let word = self.next("a state")?;
        [State::Ready, State::Running, State::Blocked, State::Exited]
            .into_iter()
            .find(|state| state.word() == word)
            .ok_or_else(|| format!("no state is called `{word}`"))
    }

    pub(super) fn outcome(&mut self) -> Result<Outcome, String> {
        let word = self.next("a result")?;
        [Outcome::Finished, Outcome::Cancelled, Outcome::Panicked]
            .into_iter()
            .find(|outcome| outcome.word() == word)
            .ok_or_else(|| format!("no result is called `{word}`"))
    }

    /// Adds a name, which must not be in the list yet.
    pub(super) fn new_name(&mut self, names: &mut Vec<String>) -> Result<(), String> {
        let name = self.next("a name")?;
        let good = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
            && !RESERVED.contains(&name);
        if !good {
            return Err(format!("`{name}` cannot be a name"));
        }
        if names.iter().any(|other| other == name) {
            return Err(format!("the name `{name}` has been used before"));
        }
        names.push(name.to_string());
        Ok(())
    }

    /// Returns the index of a name in the list.
    pub(super) fn known(&mut self, names: &[String], kind: &str) -> Result<usize, String> {
        let name = self.next(kind)?;
        index_of(names, name, kind)
    }
}

/// Parses digits only. `FromStr` also accepts a sign, which is not part of the format.
fn number<T: FromStr>(word: &str) -> Option<T> {
    let digits = word.chars().all(|c| c.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

pub(super) fn index_of(names: &[String], name: &str, kind: &str) -> Result<usize, String> {
    names
        .iter()
        .position(|other| other == name)
        .ok_or_else(|| format!("no {kind} is called `{name}`"))
}
