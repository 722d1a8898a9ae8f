//! Nothing: the tests are the crate.
