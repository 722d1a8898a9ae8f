//! Declarations that are refused, each with the message that it gets. `TRYBUILD=overwrite` writes
//! the messages anew.

#[test]
fn wrong_declarations_are_refused_with_their_message() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
