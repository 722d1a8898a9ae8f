//! Malformed traces are refused with the right line and a message that names the error.

use corank_model::Trace;

/// Parses a trace with these lines after its first three, so that the first of them is line 4.
fn parse(body: &str) -> Result<Trace, String> {
    let text = format!("corank-trace 1\nname test\nrules O1\n{body}");
    Trace::parse("test.trace", &text).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(body: &str, line: usize, message: &str) {
    let expected = format!("test.trace:{line}: {message}");
    assert_eq!(parse(body).unwrap_err(), expected);
}

#[test]
fn the_first_lines_are_fixed() {
    let error = |text: &str| Trace::parse("f", text).unwrap_err().to_string();
    assert_eq!(error(""), "f:1: the first line must be `corank-trace 1`");
    assert_eq!(
        error("# x\nspawn A"),
        "f:2: expected `corank-trace`, found `spawn`"
    );
    assert_eq!(error("corank-trace 2"), "f:1: expected `1`, found `2`");
    assert_eq!(
        error("corank-trace 1\nrules O1"),
        "f:2: expected `name`, found `rules`"
    );
    assert_eq!(
        error("corank-trace 1\nname a\n"),
        "f:2: a line `rules …` is missing"
    );
    assert_eq!(
        error("corank-trace 1\nname a\nrules"),
        "f:3: a rule is missing"
    );
    assert_eq!(
        error("corank-trace 1\nname a\nrules O1\n"),
        "f:3: the trace has no steps"
    );
}

#[test]
fn settings_are_checked() {
    refused("policy fair", 4, "no policy is called `fair`");
    refused("policy bounded 0", 4, "the share must be at least 1, not 0");
    refused("demotion 0 8", 4, "the quantum must be at least 1, not 0");
    refused("demotion 33 8", 4, "a quantum has at most 32 polls, not 33");
    refused(
        "demotion 1 64",
        4,
        "a level is a number from 0 to 63, not 64",
    );
    refused("channel Q 0", 4, "the capacity must be at least 1, not 0");
    refused(
        "global maybe",
        4,
        "global scheduling is strict or relaxed, not `maybe`",
    );
    refused("semaphore S", 4, "the number of permits is missing");
    refused(
        "semaphore S -1",
        4,
        "the number of permits must be a number, and fit, not `-1`",
    );
    refused("mutex M\nmutex M", 5, "the name `M` has been used before");
    refused(
        "idle\nmutex M",
        5,
        "`mutex` is a setting and must come before the first step",
    );
}

#[test]
fn names_and_numbers_are_checked() {
    refused("run A", 4, "no coroutine is called `A`");
    refused("spawn A\nrun A\nlock M", 6, "no mutex is called `M`");
    refused("spawn none", 4, "`none` cannot be a name");
    refused("spawn 9", 4, "`9` cannot be a name");
    refused(
        "spawn A 1\nspawn A 2",
        5,
        "the name `A` has been used before",
    );
    refused(
        "spawn A 256",
        4,
        "a level must be a number, and fit, not `256`",
    );
    refused("spawn A 5 waits", 4, "`waits` is one word too many");
    refused(
        "spawn A 5\nlevel A 64",
        5,
        "a level is a number from 0 to 63, not 64",
    );
    refused("bitmap 3 3", 4, "the levels of a bitmap must ascend");
    refused("spawn A\nstate A asleep", 5, "no state is called `asleep`");
    refused("spawn A\nresult A good", 5, "no result is called `good`");
    refused(
        "signal-key 18446744073709551616",
        4,
        "a key must be a number, and fit, not `18446744073709551616`",
    );
    refused(
        "spawn A\ndance A",
        5,
        "`dance` is not a step that this format knows",
    );
    refused(
        "idle # fine\n# fine, äöü\n",
        5,
        "a trace is plain ASCII, and this line has a `ä`",
    );
}

#[test]
fn polls_must_be_opened_and_closed() {
    refused(
        "spawn A\nblock",
        5,
        "`block` is done by a coroutine, and must follow a `run`",
    );
    refused(
        "mutex M\nspawn A\nunlock M",
        6,
        "`unlock` is done by a coroutine, and must follow a `run`",
    );
    let open = "the poll of A (line 5) must first end with `yield`, `block`, `finish`, `panic` or a `waits`";
    refused(
        "spawn A\nrun A\nidle",
        6,
        &format!("`idle` cannot stand here: {open}"),
    );
    refused(
        "spawn A\nrun A\nrun A",
        6,
        &format!("`run` cannot stand here: {open}"),
    );
    refused(
        "spawn A\nrun A\nadvance 5",
        6,
        &format!("`advance` cannot stand here: {open}"),
    );
    refused(
        "spawn A\nrun A\n\n",
        6,
        &format!("`the end of the trace` cannot stand here: {open}"),
    );
}

#[test]
fn waits_must_be_resumed() {
    let wait = "mutex M\nspawn A\nrun A\nlock M waits\nrun A\n";
    refused(
        &format!("{wait}block"),
        9,
        "this coroutine waits for something: its poll must begin with `got`, `waits` or `abandon`, not with `block`",
    );
    refused(
        &format!("{wait}got\ngot"),
        10,
        "this coroutine does not wait for anything",
    );
    refused(
        "spawn A\nrun A\nwaits",
        6,
        "this coroutine does not wait for anything",
    );
    refused(
        "spawn A\nrun A\nabandon",
        6,
        "this coroutine does not wait for anything",
    );
    refused(
        "got",
        4,
        "`got` is done by a coroutine, and must follow a `run`",
    );
    refused(
        "channel Q 1\nspawn A\nrun A\nreceive Q",
        7,
        "the message is missing",
    );
    refused(
        "channel Q 1\nspawn A\nrun A\nreceive Q waits\nrun A\ngot",
        9,
        "the message is missing",
    );
    refused("spawn A\nspawn B\nrun A\njoin B", 7, "a result is missing");
}

#[test]
fn time_advances_just_before_a_step_of_the_executor() {
    refused(
        "spawn A\nadvance 3\nbitmap 32",
        6,
        "`advance` must be followed by `run`, `idle`, `give-way` or `advance`, not by `bitmap`",
    );
    refused(
        "idle\nadvance 3",
        5,
        "`advance` must be followed by `run`, `idle` or `give-way`",
    );
}

#[test]
fn what_is_good_is_read() {
    let trace =
        parse("spawn A\t7   # comment\n\n  run A\n\twake A # again\n block\nbitmap 7\n").unwrap();
    assert_eq!(
        trace.steps.iter().map(|step| step.line).collect::<Vec<_>>(),
        [4, 6, 9]
    );
    assert_eq!(trace.names.coroutines, ["A"]);
}
