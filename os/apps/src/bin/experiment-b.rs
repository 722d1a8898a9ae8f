//! Experiment B (AsyncOS, section 3.2): tasks in series, joined by pipes.
//!
//! Task *i* reads pipe *i* until its write end is closed, writes what it read to pipe *i* + 1, and
//! closes that. The main task starts it by writing to pipe 1, and reads the last pipe.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use corank_apps::experiment::model::{Coroutine, Model, ThreadBlock, ThreadYield};
use corank_apps::experiment::{self, Experiment, Span};
use corank_user::io::{OwnedFd, Pipe};

corank_user::main!(main);

fn main() -> i32 {
    experiment::main::<B>()
}

struct B;

impl Experiment for B {
    const NAME: &'static str = "b";
    const PARAMETER: &'static str = "bytes";
    const DEFAULTS: &'static str = "1,256,4096";
    const NUMERIC: bool = true;

    fn run(model: &str, n: usize, bytes: &str) -> Result<Span, String> {
        let bytes = bytes
            .parse()
            .map_err(|_| alloc::format!("{bytes} is not a number of bytes"))?;
        // Neighbours differ, so that a byte lost or moved shows.
        let data: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
        let (span, received) = match model {
            Coroutine::NAME => relay::<Coroutine>(n, data.clone()),
            ThreadYield::NAME => relay::<ThreadYield>(n, data.clone()),
            ThreadBlock::NAME => relay::<ThreadBlock>(n, data.clone()),
            _ => return Err(alloc::format!("there is no model {model}")),
        };
        if received == data {
            Ok(span)
        } else {
            Err(alloc::format!(
                "{} bytes arrived, not as sent",
                received.len()
            ))
        }
    }
}

/// Sends `data` through `n` tasks and returns the time, and what came out.
fn relay<M: Model>(n: usize, data: Vec<u8>) -> (Span, Vec<u8>) {
    M::run(async move {
        let start = corank_user::time::ticks();
        let bytes = data.len();
        let mut pipes = M::pipes(n + 1).await.into_iter();
        let Pipe {
            mut reader,
            writer: first,
        } = pipes.next().expect("there is one pipe more than tasks");
        let mut tasks = Vec::with_capacity(n);
        for next in pipes {
            let from = core::mem::replace(&mut reader, next.reader);
            tasks.push(M::spawn(move || pass_on::<M>(from, next.writer, bytes)));
        }
        M::write_and_close(first, data).await;
        let received = M::read_and_close(reader, room_for(bytes)).await;
        for task in tasks {
            M::join(task).await;
        }
        let end = corank_user::time::ticks();
        (Span { start, end }, received)
    })
}

/// Runs one task: reads its pipe to the end, and writes that to the next one.
async fn pass_on<M: Model>(from: OwnedFd, to: OwnedFd, bytes: usize) {
    let data = M::read_and_close(from, room_for(bytes)).await;
    M::write_and_close(to, data).await;
}

/// Returns a buffer with room for one byte more than comes.
///
/// With that room the read ends when the pipe's write end is closed, not before.
fn room_for(bytes: usize) -> Vec<u8> {
    Vec::with_capacity(bytes + 1)
}
