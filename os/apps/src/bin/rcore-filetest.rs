//! A file is made, written, read back, written over and appended to by a child, with the flags of
//! rCore-Tutorial-v3 alone.
#![no_std]
#![no_main]

#[path = "../rcore.rs"]
mod rcore;
use rcore::*;

const PIECE: usize = 1024;
const PIECES: usize = 200;

/// Runs the test.
#[unsafe(no_mangle)]
fn main() -> i32 {
    assert_eq!(open(c"missing", RDONLY), -1);
    let text = b"Hello, world!";
    let file = open(c"filea", CREATE | WRONLY);
    assert!(file > 2);
    assert_eq!(write(file as usize, text), text.len() as isize);
    assert_eq!(read(file as usize, &mut [0; 1]), -1, "it is for writing");
    assert_eq!(close(file as usize), 0);

    let file = open(c"filea", RDONLY) as usize;
    let mut buffer = [0; 100];
    assert_eq!(read(file, &mut buffer), text.len() as isize);
    assert_eq!(&buffer[..text.len()], text);
    assert_eq!(read(file, &mut buffer), 0);
    assert_eq!(write(file, text), -1, "it is for reading");
    assert_eq!(close(file), 0);
    assert_eq!(close(file), -1);

    // As huge_write does it.
    let file = open(c"testf", CREATE | WRONLY) as usize;
    let mut piece = [0; PIECE];
    for (at, byte) in piece.iter_mut().enumerate() {
        *byte = at as u8;
    }
    let start = get_time();
    for _ in 0..PIECES {
        assert_eq!(write(file, &piece), PIECE as isize);
    }
    assert_eq!(close(file), 0);
    println!("{PIECES} KiB in {} ms", get_time() - start);

    // A child goes on where the parent was: they share the open file.
    let file = open(c"testf", RDWR) as usize;
    let mut first = [0; PIECE];
    assert_eq!(read(file, &mut first), PIECE as isize);
    if fork() == 0 {
        assert_eq!(read(file, &mut first[..3]), 3);
        return i32::from(first[..3] != piece[..3]);
    }
    let mut code = -1;
    assert!(waitpid(-1, &mut code) > 0);
    assert_eq!(code, 0);
    assert_eq!(read(file, &mut first[..1]), 1);
    assert_eq!(first[0], piece[3]);
    assert_eq!(close(file), 0);

    // Opening to make it empties it.
    let file = open(c"testf", CREATE) as usize;
    assert_eq!(read(file, &mut first), 0);
    assert_eq!(close(file), 0);
    println!("filetest passed!");
    0
}
