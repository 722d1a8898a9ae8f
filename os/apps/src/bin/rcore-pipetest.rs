//! A child reads what its parent writes, until the parent closes the pipe.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

static TEXT: &str = "Hello, world!";

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    let mut ends = [0; 2];
    assert_eq!(pipe(&mut ends), 0);
    let [read_end, write_end] = ends;
    assert_eq!([read_end, write_end], [3, 4]);
    if fork() == 0 {
        assert_eq!(close(write_end), 0);
        let mut buffer = [0; 32];
        let length = read(read_end, &mut buffer);
        assert_eq!(length, TEXT.len() as isize);
        assert_eq!(&buffer[..length as usize], TEXT.as_bytes());
        assert_eq!(read(read_end, &mut buffer), 0);
        return 3;
    }
    assert_eq!(close(read_end), 0);
    assert_eq!(write(write_end, TEXT.as_bytes()), TEXT.len() as isize);
    let second = dup(write_end);
    assert!(second > 0);
    assert_eq!(close(second as usize), 0);
    assert_eq!(close(write_end), 0);
    assert_eq!(close(write_end), -1);
    let mut code = 0;
    assert!(waitpid(-1, &mut code) > 0);
    assert_eq!(code, 3);
    println!("pipetest passed!");
    0
}
