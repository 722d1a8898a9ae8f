//! The first program: prints a line.
#![no_std]
#![no_main]

use corank_user::println;

corank_user::main!(main);

fn main() {
    let name = corank_user::arguments().nth(1).unwrap_or("world");
    println!("hello, {name}");
}
