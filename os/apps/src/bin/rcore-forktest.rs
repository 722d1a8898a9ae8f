//! Dozens of children, each waited for once.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

const CHILDREN: i32 = 40;

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    let parent = getpid();
    for number in 0..CHILDREN {
        let pid = fork();
        if pid == 0 {
            assert_ne!(getpid(), parent);
            yield_();
            exit(number);
        }
        assert!(pid > 0);
    }
    let (mut code, mut sum) = (0, 0);
    for _ in 0..CHILDREN {
        assert!(waitpid(-1, &mut code) > 0, "a child is missing");
        sum += code;
    }
    assert_eq!(sum, CHILDREN * (CHILDREN - 1) / 2);
    assert_eq!(waitpid(-1, &mut code), -1, "one child too many");

    let pid = fork();
    if pid == 0 {
        loop {
            yield_();
        }
    }
    assert_eq!(kill(pid as usize, 9), 0);
    assert_eq!(waitpid(pid, &mut code), pid);
    assert_eq!(code, -9);

    let pid = fork();
    if pid == 0 {
        let name = c"rcore-yield";
        exec(name, &[name.as_ptr().cast(), core::ptr::null()]);
        exit(1);
    }
    assert_eq!(waitpid(pid, &mut code), pid);
    assert_eq!(code, 0);
    println!("forktest passed!");
    0
}
