//! The claim that a worker shows to the domain, in one word.

use corank::Priority;

/// Nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share.
pub(crate) type Nanoseconds = u64;

/// The state of a claim.
///
/// ```text
///            claim                  step aside
///   (none) ────────→ Running ─────────────────→ Aside
///      ↖               │  ↖─────────────────────┘ called back
///  forgotten   release │
///        Released ←────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimState {
    /// It has work and takes a processor for it.
    Running,
    /// It has work, and sleeps to leave its processor to others.
    Aside,
    /// It has had work until a while ago.
    Released,
}

/// A worker's claim to a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The most urgent level that it has work at.
    pub(crate) level: Priority,
    pub(crate) state: ClaimState,
    /// Whether it checks its doorbell before every poll. Then it may be rung while it runs.
    pub(crate) strict: bool,
    /// Whether Linux puts it behind all others by itself, because it is at nice 19.
    pub(crate) behind: bool,
    /// Since when it stands in the queue at its level, or since when it is released.
    ///
    /// Kept in units of [`UNIT`].
    pub(crate) since: Nanoseconds,
}

/// The resolution of times in a claim. The word has 48 bits for them, which is nine years.
pub(crate) const UNIT: Nanoseconds = 1 << 10;

/// A word that no process of this version writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

const LEVEL: u64 = 0x3f;
const STATE: u32 = 8;
const STRICT: u64 = 1 << 10;
const BEHIND: u64 = 1 << 11;
const TIME: u32 = 16;
/// Bits 6, 7 and 12 to 15.
const UNUSED: u64 = 0xf0c0;

impl Claim {
    /// Returns the word of this claim. It is never 0, which means no claim.
    pub(crate) fn to_word(self) -> u64 {
        let state: u64 = match self.state {
            ClaimState::Running => 1,
            ClaimState::Aside => 2,
            ClaimState::Released => 3,
        };
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        u64::from(self.level.level())
            | state << STATE
            | flag(self.strict, STRICT)
            | flag(self.behind, BEHIND)
            | (self.since / UNIT) << TIME
    }

    /// Decodes a word. Any word may come, because another process wrote it.
    pub(crate) fn from_word(word: u64) -> Result<Option<Self>, Damaged> {
        if word == 0 {
            return Ok(None);
        }
        let state = match word >> STATE & 3 {
            1 => ClaimState::Running,
            2 => ClaimState::Aside,
            3 => ClaimState::Released,
            _ => return Err(Damaged),
        };
        if word & UNUSED != 0 {
            return Err(Damaged);
        }
        Ok(Some(Self {
            level: Priority::new((word & LEVEL) as u8).ok_or(Damaged)?,
            state,
            strict: word & STRICT != 0,
            behind: word & BEHIND != 0,
            since: (word >> TIME) * UNIT,
        }))
    }

    /// Tests whether it wants a processor now.
    pub(crate) fn wants(self) -> bool {
        self.state != ClaimState::Released
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_claim_survives_its_word(level in 0u8..64, state in 0..3, strict: bool, behind: bool, time in 0u64..1 << 48) {
            let state = [ClaimState::Running, ClaimState::Aside, ClaimState::Released][state as usize];
            let claim = Claim { level: Priority::new(level).unwrap(), state, strict, behind, since: time * UNIT };
            prop_assert_ne!(claim.to_word(), 0);
            prop_assert_eq!(Claim::from_word(claim.to_word()), Ok(Some(claim)));
        }

        #[test]
        fn any_word_is_a_claim_or_damaged(word: u64) {
            if let Ok(Some(claim)) = Claim::from_word(word) {
                prop_assert_eq!(claim.to_word(), word);
            }
        }
    }

    #[test]
    fn unused_bits_are_damage() {
        let word = Claim {
            level: Priority::DEFAULT,
            state: ClaimState::Running,
            strict: true,
            behind: true,
            since: 0,
        }
        .to_word();
        assert_eq!(Claim::from_word(0), Ok(None));
        for bit in [6, 7, 12, 13, 14, 15] {
            assert_eq!(Claim::from_word(word | 1 << bit), Err(Damaged));
        }
        assert_eq!(Claim::from_word(u64::from(u8::MAX)), Err(Damaged));
    }
}
