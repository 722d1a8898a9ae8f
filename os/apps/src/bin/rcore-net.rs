//! The network's calls: datagrams between two processes, and a port at which TCP connections are
//! taken.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

const HERE: u32 = 127 << 24 | 1;
static TEXT: &str = "Hello, network!";

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    let question = connect(HERE, 2001, 2000);
    assert!(question >= 0);
    let answer = connect(HERE, 2000, 2001);
    assert!(answer >= 0);
    assert_eq!(connect(HERE, 2000, 2002), -1);
    if fork() == 0 {
        let mut buffer = [0; 64];
        let length = read(answer as usize, &mut buffer);
        assert_eq!(&buffer[..length as usize], TEXT.as_bytes());
        assert_eq!(write(answer as usize, &buffer[..5]), 5);
        return 0;
    }
    assert_eq!(
        write(question as usize, TEXT.as_bytes()),
        TEXT.len() as isize
    );
    let mut buffer = [0; 64];
    assert_eq!(read(question as usize, &mut buffer), 5);
    assert_eq!(&buffer[..5], b"Hello");
    let mut code = 1;
    while waitpid(-1, &mut code) == -2 {
        yield_();
    }
    assert_eq!(code, 0);
    let listener = listen(80);
    assert!(listener >= 0);
    assert_eq!(listen(80), -1);
    assert!(accept(question as usize) < 0);
    assert_eq!(close(listener as usize), 0);
    assert!(accept(listener as usize) < 0);
    println!("net test passed!");
    0
}
