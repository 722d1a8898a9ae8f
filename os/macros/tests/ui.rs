//! Declarations that are refused, each with the message that it gets. `TRYBUILD=overwrite` writes
//! the messages anew.

#[test]
fn refused_declarations() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
