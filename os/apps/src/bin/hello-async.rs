//! The first asynchronous program: coroutines of three priorities, run in the order of their
//! urgency.
#![no_std]
#![no_main]

use corank_user::{JoinError, Priority, println, spawn, yield_now};

corank_user::async_main!(main);

async fn main() -> Result<(), JoinError> {
    let handles = [40, 10, 20].map(|level| {
        let priority = Priority::new(level).expect("levels are below 64");
        spawn(priority, greet(level)).expect("memory for three coroutines")
    });
    for handle in handles {
        handle.await?;
    }
    println!("good bye");
    Ok(())
}

async fn greet(level: u8) {
    println!("hello from level {level}");
    yield_now().await;
    println!("and again from level {level}");
}
