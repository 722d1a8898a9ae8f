//! How often a worker decides.

/// When a worker compares its work with the claims of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// At each tick, and when it begins to work at another level.
    Relaxed,
    /// Before every poll.
    #[default]
    Strict,
}
