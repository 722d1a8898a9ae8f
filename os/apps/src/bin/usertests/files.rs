//! Tests of files and directories on the disk.
//!
//! Each test works in a directory of its own and leaves nothing behind.
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

use corank_abi::call;
use corank_abi::error::{
    BAD_DESCRIPTOR, BUSY, EXISTS, FILE_TOO_LARGE, INVALID, IS_A_DIRECTORY, NAME_TOO_LONG,
    NOT_A_DIRECTORY, NOT_EMPTY, NOT_FOUND, TOO_MANY_FILES,
};
use corank_abi::file::{FROM_HERE, FROM_START, Stat};
use corank_user::fs::{self, File, From, Options};
use corank_user::io::Fd;
use corank_user::{Error, io, process};

use crate::support::{self, exit_code, kill_and_wait, pipe, tests};

tests![
    what_is_written_is_read_back,
    the_position_is_that_of_the_open_file,
    seek_goes_anywhere,
    positions_are_never_negative,
    a_gap_is_full_of_zeros,
    appending_goes_to_the_end,
    truncate_cuts_and_extends,
    flags_say_what_is_allowed,
    wrong_and_overlong_names_are_refused,
    names_in_other_alphabets_are_kept,
    directories_nest,
    directories_are_listed,
    the_current_directory_is_inherited,
    rename_moves_and_replaces,
    an_open_file_is_not_removed_or_replaced,
    the_number_of_open_files_is_bounded,
    bad_descriptors_and_pointers_are_refused,
    file_calls_of_rcore_behave_as_there,
    a_program_on_the_disk_runs,
    a_file_that_is_no_program_does_not_run,
    a_killed_writer_leaves_a_whole_file,
    exit_closes_before_wait_returns,
    files_have_the_calendars_date,
];

/// The directory in which a test works.
pub(crate) const HERE: &str = "/test";

/// Runs a test in a directory of its own, and removes that, which must be empty by then.
pub(crate) fn in_directory(test: impl FnOnce()) {
    // A test that failed may have left its files.
    remove_all(HERE);
    fs::make_directory(HERE).expect("a directory");
    fs::change_directory(HERE).expect("it has just been made");
    test();
    fs::change_directory("/").expect("the root");
    fs::remove_directory(HERE).expect("the test has removed its files");
}

/// Removes a directory with everything in it, as far as possible.
pub(crate) fn remove_all(path: &str) {
    for entry in fs::list(path).unwrap_or_default() {
        let below = alloc::format!("{path}/{}", entry.name);
        if fs::remove(&below).is_err() {
            remove_all(&below);
        }
    }
    let _ = fs::remove_directory(path);
}

pub(crate) fn expect_error<T: Debug>(result: Result<T, Error>, code: isize) {
    assert_eq!(result.expect_err("the call fails").code(), code);
}

/// Returns bytes that differ from place to place.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

fn what_is_written_is_read_back() {
    in_directory(|| {
        for length in [0, 1, 511, 512, 513, 2048, 2049, 32 << 10, 300_000] {
            let data = pattern(length);
            fs::write("file", &data).expect("room");
            assert_eq!(fs::status("file").expect("the file").size, length as u64);
            assert!(
                fs::read("file").expect("the file") == data,
                "{length} bytes"
            );
        }
        fs::remove("file").expect("the file");
        expect_error(fs::status("file"), NOT_FOUND);
    });
}

fn the_position_is_that_of_the_open_file() {
    in_directory(|| {
        let file = Options::read_write().create().open("file").expect("room");
        file.write_all(b"abcdef").expect("room");
        assert_eq!(file.seek(From::Start(0)), Ok(0));
        let copy = file.duplicate().expect("a descriptor");
        let mut two = [0; 2];
        assert_eq!(copy.read(&mut two), Ok(2));
        assert_eq!(&two, b"ab");
        // A child shares the position.
        assert_eq!(exit_code(|| i32::from(file.read(&mut [0; 2]) != Ok(2))), 0);
        assert_eq!(file.read(&mut two), Ok(2));
        assert_eq!(&two, b"ef");
        assert_eq!(file.read(&mut two), Ok(0), "the end");
        // Opening the file anew gives a position of its own.
        let other = File::open("file").expect("the file");
        assert_eq!(other.read(&mut two), Ok(2));
        assert_eq!(&two, b"ab");
        drop((file, copy, other));
        fs::remove("file").expect("the file");
    });
}

fn positions_are_never_negative() {
    in_directory(|| {
        let file = Options::write().create().open("far").expect("a file");
        let number = file.number();
        let seek =
            |offset: isize, from| support::call(call::FILE_SEEK, [number, offset as usize, from]);
        assert_eq!(seek(isize::MAX, FROM_START), isize::MAX);
        assert_eq!(seek(1, FROM_HERE), INVALID);
        assert_eq!(seek(0, FROM_HERE), isize::MAX);
        assert_eq!(seek(isize::MAX, FROM_HERE), INVALID);
        drop(file);
        fs::remove("far").expect("it is closed");
    });
}

fn seek_goes_anywhere() {
    in_directory(|| {
        fs::write("file", b"0123456789").expect("room");
        let file = File::open("file").expect("the file");
        let mut byte = [0];
        for (to, position, content) in [
            (From::Start(3), 3, b'3'),
            (From::Here(2), 6, b'6'),
            (From::Here(-5), 2, b'2'),
            (From::End(-1), 9, b'9'),
        ] {
            assert_eq!(file.seek(to), Ok(position));
            assert_eq!(file.read(&mut byte), Ok(1));
            assert_eq!(byte[0], content);
        }
        expect_error(
            file.seek(From::Start(0)).and(file.seek(From::Here(-1))),
            INVALID,
        );
        assert_eq!(
            file.seek(From::Here(0)),
            Ok(0),
            "a seek that fails moves nothing"
        );
        assert_eq!(
            support::call(call::FILE_SEEK, [file.number(), 0, 3]),
            INVALID
        );
        assert_eq!(file.seek(From::End(100)), Ok(110));
        assert_eq!(file.read(&mut byte), Ok(0));
        drop(file);
        fs::remove("file").expect("the file");
    });
}

fn a_gap_is_full_of_zeros() {
    in_directory(|| {
        // Earlier contents of the disk must not show.
        fs::write("old", &vec![0xff; 100_000]).expect("room");
        fs::remove("old").expect("the file");
        let file = Options::read_write().create().open("file").expect("room");
        file.write_all(b"x").expect("room");
        file.seek(From::Start(70_000)).expect("a position");
        file.write_all(b"y").expect("room");
        file.seek(From::Start(0)).expect("a position");
        let data = file.read_to_end().expect("the file");
        assert_eq!(data.len(), 70_001);
        assert_eq!((data[0], data[70_000]), (b'x', b'y'));
        assert!(data[1..70_000].iter().all(|byte| *byte == 0));
        // The file system allows 4 GiB less one byte.
        file.seek(From::Start(u64::from(u32::MAX)))
            .expect("a position");
        expect_error(file.write(b"z"), FILE_TOO_LARGE);
        drop(file);
        fs::remove("file").expect("the file");
    });
}

fn appending_goes_to_the_end() {
    in_directory(|| {
        let log = || {
            Options::write()
                .create()
                .append()
                .open("log")
                .expect("room")
        };
        let (one, two) = (log(), log());
        for _ in 0..3 {
            one.write_all(b"one ").expect("room");
            two.write_all(b"two ").expect("room");
        }
        one.seek(From::Start(0)).expect("a position");
        one.write_all(b"end").expect("room");
        drop((one, two));
        assert_eq!(
            fs::read("log").expect("the file"),
            b"one two one two one two end"
        );
        fs::remove("log").expect("the file");
    });
}

fn truncate_cuts_and_extends() {
    in_directory(|| {
        let file = Options::read_write().create().open("file").expect("room");
        file.write_all(&pattern(10_000)).expect("room");
        for (size, kept) in [(5000, 5000), (12_000, 5000), (0, 0), (3, 0)] {
            file.truncate(size).expect("room");
            assert_eq!(file.status().expect("it is open").size, size);
            file.seek(From::Start(0)).expect("a position");
            let mut expected = pattern(kept);
            expected.resize(size as usize, 0);
            assert!(
                file.read_to_end().expect("the file") == expected,
                "{size} bytes"
            );
        }
        expect_error(
            File::open("file").expect("the file").truncate(1),
            BAD_DESCRIPTOR,
        );
        drop(file);
        // Opening a file can also empty it.
        drop(Options::write().truncate().open("file").expect("the file"));
        assert_eq!(fs::status("file").expect("the file").size, 0);
        fs::remove("file").expect("the file");
    });
}

fn flags_say_what_is_allowed() {
    in_directory(|| {
        expect_error(File::open("file"), NOT_FOUND);
        expect_error(Options::write().open("file"), NOT_FOUND);
        expect_error(Options::write().create().open("no/file"), NOT_FOUND);
        let file = Options::write().create_new().open("file").expect("room");
        assert_eq!(
            file.read(&mut [0]).expect_err("write only").code(),
            call::FAILED
        );
        file.write_all(b"text").expect("room");
        drop(file);
        expect_error(Options::write().create_new().open("file"), EXISTS);
        let file = Options::write().create().open("file").expect("the file");
        assert_eq!(
            file.status().expect("it is open").size,
            4,
            "create alone keeps what is there"
        );
        drop(file);
        let file = File::open("file").expect("the file");
        assert_eq!(
            file.write(b"x").expect_err("read only").code(),
            call::FAILED
        );
        drop(file);
        expect_error(Options::read().create().open("file"), INVALID);
        expect_error(Options::read().truncate().open("file"), INVALID);
        let path = c"file".as_ptr().expose_provenance();
        assert_eq!(support::call(call::FILE_OPEN, [path, 1 << 31, 0]), INVALID);
        expect_error(Options::write().open(HERE), IS_A_DIRECTORY);
        expect_error(File::open("/"), IS_A_DIRECTORY);
        expect_error(File::open("file/below"), NOT_A_DIRECTORY);
        fs::remove("file").expect("the file");
    });
}

fn wrong_and_overlong_names_are_refused() {
    in_directory(|| {
        let longest = "n".repeat(255);
        fs::write(&longest, b"1").expect("room");
        assert_eq!(fs::read(&longest).expect("the file"), b"1");
        fs::remove(&longest).expect("the file");
        expect_error(fs::write(&"n".repeat(256), b""), NAME_TOO_LONG);
        expect_error(fs::make_directory(&"n".repeat(300)), NAME_TOO_LONG);
        let path = |length: usize| "./".repeat(length / 2) + &"f"[..length % 2];
        expect_error(File::open(&path(1023)), NOT_FOUND);
        expect_error(File::open(&path(1024)), NAME_TOO_LONG);
        for name in ["a:b", "what?", "*", "a\\b", "tab\t", "dot."] {
            expect_error(fs::write(name, b""), INVALID);
        }
        expect_error(File::open(""), NOT_FOUND);
        let not_utf8 = c"\xff\xfe".as_ptr().expose_provenance();
        assert_eq!(support::call(call::FILE_OPEN, [not_utf8, 0, 0]), INVALID);
    });
}

fn names_in_other_alphabets_are_kept() {
    in_directory(|| {
        let names = [
            "协程 42.txt",
            "Grüße",
            "Mixed Case.Name",
            ".hidden",
            "a.b.c.d",
        ];
        for name in names {
            fs::write(name, name.as_bytes()).expect("room");
        }
        let mut found: Vec<String> = list();
        found.sort();
        let mut expected = names;
        expected.sort_unstable();
        assert_eq!(found, expected);
        // Names keep their case, and any case finds them.
        assert_eq!(
            fs::read("MIXED case.NAME").expect("the file"),
            b"Mixed Case.Name"
        );
        for name in names {
            assert_eq!(fs::read(name).expect("the file"), name.as_bytes());
            fs::remove(name).expect("the file");
        }
    });
}

fn list() -> Vec<String> {
    let entries = fs::list(".").expect("the directory");
    entries.into_iter().map(|entry| entry.name).collect()
}

fn directories_nest() {
    in_directory(|| {
        fs::make_directory("a").expect("room");
        fs::make_directory("a/b").expect("room");
        fs::make_directory("./a/../a/b/c").expect("room");
        fs::write("a/b/c/file", b"deep").expect("room");
        assert_eq!(fs::read("/test/a/b//c/./file").expect("the file"), b"deep");
        expect_error(fs::make_directory("a/b"), EXISTS);
        expect_error(fs::make_directory("/"), EXISTS);
        expect_error(fs::make_directory("x/y"), NOT_FOUND);
        expect_error(fs::make_directory("a/b/c/file/d"), NOT_A_DIRECTORY);
        expect_error(fs::remove_directory("a/b/c"), NOT_EMPTY);
        expect_error(fs::remove("a/b"), IS_A_DIRECTORY);
        expect_error(fs::remove_directory("a/b/c/file"), NOT_A_DIRECTORY);
        expect_error(fs::remove_directory("/"), INVALID);
        fs::remove("a/b/c/file").expect("the file");
        for path in ["a/b/c", "a/b", "a"] {
            fs::remove_directory(path).expect("empty");
        }
        expect_error(fs::remove_directory("a"), NOT_FOUND);
    });
}

fn directories_are_listed() {
    in_directory(|| {
        assert_eq!(list(), Vec::<String>::new());
        for number in 0..100 {
            fs::write(&alloc::format!("file {number:03}"), &pattern(number)).expect("room");
        }
        fs::make_directory("directory").expect("room");
        let entries = fs::list(".").expect("the directory");
        assert_eq!(entries.len(), 101);
        for (number, entry) in entries[..100].iter().enumerate() {
            assert_eq!(entry.name, alloc::format!("file {number:03}"));
            assert_eq!(entry.status.size, number as u64);
            assert!(
                entry.status.modified > 1_600_000_000,
                "the machine knows the date"
            );
        }
        assert!(fs::is_directory(&entries[100].status));
        for entry in &entries[..100] {
            fs::remove(&entry.name).expect("the file");
        }
        assert_eq!(list(), ["directory"]);
        expect_error(fs::list("missing"), NOT_FOUND);
        fs::remove_directory("directory").expect("empty");
    });
}

fn the_current_directory_is_inherited() {
    in_directory(|| {
        fs::make_directory("sub").expect("room");
        let code = exit_code(|| {
            assert_eq!(fs::current_directory().as_deref(), Ok(HERE));
            fs::change_directory("sub/../sub").expect("the directory");
            assert_eq!(fs::current_directory().as_deref(), Ok("/test/sub"));
            fs::write("file", b"").expect("room");
            0
        });
        assert_eq!(code, 0);
        assert_eq!(
            fs::current_directory().as_deref(),
            Ok(HERE),
            "the child's does not count here"
        );
        expect_error(fs::change_directory("sub/file"), NOT_A_DIRECTORY);
        expect_error(fs::change_directory("missing"), NOT_FOUND);
        let buffer = [0_u8; 4];
        let address = buffer.as_ptr().expose_provenance();
        assert_eq!(
            support::call(call::DIRECTORY_CURRENT, [address, 4, 0]),
            NAME_TOO_LONG
        );
        fs::remove("sub/file").expect("the file");
        fs::remove_directory("sub").expect("empty");
    });
}

fn rename_moves_and_replaces() {
    in_directory(|| {
        fs::write("a", b"first").expect("room");
        fs::rename("a", "b").expect("nothing is there");
        expect_error(fs::status("a"), NOT_FOUND);
        fs::write("c", b"second").expect("room");
        fs::rename("c", "b").expect("a file is replaced");
        assert_eq!(fs::read("b").expect("the file"), b"second");
        fs::make_directory("d").expect("room");
        fs::rename("b", "d/b").expect("another directory");
        assert_eq!(fs::read("d/b").expect("the file"), b"second");
        fs::rename("d", "e").expect("a directory moves with what it has");
        assert_eq!(fs::read("e/b").expect("the file"), b"second");
        expect_error(fs::rename("e", "e/f"), INVALID);
        expect_error(fs::rename("missing", "x"), NOT_FOUND);
        expect_error(fs::rename("e/b", "/"), INVALID);
        fs::write("file", b"").expect("room");
        expect_error(fs::rename("file", "e"), IS_A_DIRECTORY);
        fs::remove("file").expect("the file");
        // An open file can be renamed under its descriptor.
        let file = Options::read_write().open("e/b").expect("the file");
        fs::rename("e/b", "moved").expect("nothing is there");
        file.write_all(b"changed").expect("room");
        drop(file);
        assert_eq!(fs::read("moved").expect("the file"), b"changed");
        fs::remove("moved").expect("the file");
        fs::remove_directory("e").expect("empty");
    });
}

fn an_open_file_is_not_removed_or_replaced() {
    in_directory(|| {
        fs::write("file", b"text").expect("room");
        fs::write("other", b"").expect("room");
        let file = File::open("file").expect("the file");
        expect_error(fs::remove("file"), BUSY);
        expect_error(fs::rename("other", "file"), BUSY);
        let mut text = [0; 4];
        assert_eq!(file.read(&mut text), Ok(4));
        assert_eq!(&text, b"text");
        let copy = file.duplicate().expect("a descriptor");
        file.close().expect("it is open");
        expect_error(fs::remove("file"), BUSY);
        drop(copy);
        fs::remove("file").expect("it is not open");
        fs::remove("other").expect("the file");
    });
}

fn the_number_of_open_files_is_bounded() {
    in_directory(|| {
        let code = exit_code(|| {
            fs::write("file", b"x").expect("room");
            let first = File::open("file").expect("the file").into_fd();
            let mut copies = 1;
            while let Ok(copy) = first.duplicate() {
                let _ = copy.into_number();
                copies += 1;
            }
            assert_eq!(copies, (1 << 16) - 3, "all but the console's three");
            expect_error(File::open("file"), TOO_MANY_FILES);
            expect_error(Options::write().create().open("new"), TOO_MANY_FILES);
            drop(io::OwnedFd::from_number(100));
            assert_eq!(File::open("file").expect("one is free").number(), 100);
            // A file that could not be opened has still been made, as on other systems.
            fs::remove("new").expect("the file");
            0
        });
        assert_eq!(code, 0);
        fs::remove("file").expect("exit has closed it");
    });
}

fn bad_descriptors_and_pointers_are_refused() {
    in_directory(|| {
        let (reader, _writer) = pipe();
        for descriptor in [reader.number(), 1, 99, usize::MAX] {
            assert_eq!(
                support::call(call::FILE_SEEK, [descriptor, 0, 0]),
                BAD_DESCRIPTOR
            );
            assert_eq!(
                support::call(call::TRUNCATE, [descriptor, 0, 0]),
                BAD_DESCRIPTOR
            );
            assert_eq!(
                support::call(call::STATUS_OF, [descriptor, 0, 0]),
                BAD_DESCRIPTOR
            );
        }
        fs::write("file", &pattern(5000)).expect("room");
        let calls: [fn(usize, usize) -> [usize; 4]; 9] = [
            |_, bad| [call::FILE_OPEN, bad, 0, 0],
            |_, bad| [call::OPEN, bad, 0, 0],
            |_, bad| [call::RENAME, c"file".as_ptr().expose_provenance(), bad, 0],
            |_, bad| [call::STATUS, c"file".as_ptr().expose_provenance(), bad, 0],
            |_, bad| {
                [
                    call::DIRECTORY_ENTRY,
                    c".".as_ptr().expose_provenance(),
                    0,
                    bad,
                ]
            },
            |_, bad| [call::SPACE, bad, 0, 0],
            |file, bad| [call::STATUS_OF, file, bad, 0],
            |file, bad| [call::READ, file, bad, 4000],
            |file, bad| [call::WRITE, file, bad, 4000],
        ];
        for bad in [0, support::UNMAPPED, support::KERNEL] {
            for call in calls {
                support::expect_end(support::BAD_ADDRESS, || {
                    let file = Options::read_write().open("file").expect("the file");
                    let [number, arguments @ ..] = call(file.number(), bad);
                    support::call(number, arguments);
                });
            }
        }
        assert!(
            fs::read("file").expect("the file") == pattern(5000),
            "nothing was written"
        );
        fs::remove("file").expect("the file");
    });
}

fn file_calls_of_rcore_behave_as_there() {
    in_directory(|| {
        let name = c"file".as_ptr().expose_provenance();
        let open = |flags: usize| support::call(call::OPEN, [name, flags, 0]);
        assert_eq!(open(0), call::FAILED);
        let file = open(1 << 9 | 1) as usize;
        assert_eq!(Fd::new(file).write(b"text"), Ok(4));
        let mut stat = Stat::default();
        let place = (&raw mut stat).expose_provenance();
        assert_eq!(support::call(call::FSTAT, [file, place, 0]), 0);
        assert_eq!((stat.mode, stat.links), (0o100_000, 1));
        assert_eq!(support::call(call::FSTAT, [1, place, 0]), call::FAILED);
        assert_eq!(support::call(call::CLOSE, [file, 0, 0]), 0);
        assert_eq!(support::call(call::CLOSE, [file, 0, 0]), call::FAILED);
        // Bit 9 empties an existing file, and by itself opens it for reading and writing.
        let file = open(1 << 9) as usize;
        assert_eq!(Fd::new(file).read(&mut [0]), Ok(0));
        assert_eq!(Fd::new(file).write(b"again"), Ok(5));
        assert_eq!(support::call(call::CLOSE, [file, 0, 0]), 0);
        let file = open(1 << 10 | 1 << 1) as usize;
        assert_eq!(Fd::new(file).read(&mut [0]), Ok(0), "bit 10 empties it");
        assert_eq!(support::call(call::CLOSE, [file, 0, 0]), 0);
        assert_eq!(support::call(call::LINKAT, [name, name, 0]), call::FAILED);
        let here = -100_isize as usize;
        assert_eq!(support::call(call::UNLINKAT, [here, name, 0]), 0);
        assert_eq!(support::call(call::UNLINKAT, [here, name, 0]), call::FAILED);
    });
}

fn a_program_on_the_disk_runs() {
    in_directory(|| {
        let archive = fs::read("/hello").expect("the archive has it");
        fs::write("program", &archive).expect("room");
        for path in ["program", "./program", "/test/program"] {
            let (reader, writer) = pipe();
            let child = process::spawn(|| {
                drop(io::OwnedFd::from_number(1));
                let _ = writer.duplicate().map(io::OwnedFd::into_number);
                process::exec(path, &["program", "from the disk"]);
                1
            });
            drop(writer);
            let mut text = Vec::with_capacity(64);
            reader.fill(&mut text).expect("the pipe can be read");
            assert_eq!(text, b"hello, from the disk\n");
            assert_eq!(
                process::wait(child.expect("a process"))
                    .expect("the child")
                    .code,
                0
            );
        }
        fs::remove("program").expect("the file");
    });
}

fn a_file_that_is_no_program_does_not_run() {
    in_directory(|| {
        let good = fs::read("/hello").expect("the archive has it");
        let mut wrong_machine = good.clone();
        wrong_machine[18] = 62;
        let mut huge = good.clone();
        // The size in memory that the first program header gives.
        let header = usize::from(u16::from_le_bytes([good[32], good[33]]));
        huge[header + 40..header + 48].fill(0x7f);
        for (bytes, what) in [
            (&good[..good.len() / 2], "half a program"),
            (&good[..63], "less than a header"),
            (b"", "nothing"),
            (b"#!/bin/sh\n", "text"),
            (&wrong_machine, "another machine's"),
            (&huge, "a segment larger than memory"),
        ] {
            fs::write("program", bytes).expect("room");
            let code = exit_code(|| {
                let refused = process::exec("./program", &["program"]).is_some();
                i32::from(!refused)
            });
            assert_eq!(code, 0, "{what}");
        }
        let code = exit_code(|| i32::from(process::exec("/test", &[]).is_none()));
        assert_eq!(code, 0, "a directory");
        fs::remove("program").expect("the file");
    });
}

/// Tests that a file has whole pieces up to some place whenever its writer is killed.
///
/// The file can be removed afterwards.
fn a_killed_writer_leaves_a_whole_file() {
    const PIECE: usize = 3000;
    in_directory(|| {
        for patience in 0..30 {
            let (reader, writer) = pipe();
            let child = process::spawn(|| {
                let file = File::create("file").expect("room");
                writer.write(&[0]).expect("room");
                loop {
                    file.write_all(&pattern(PIECE)).expect("room");
                }
            });
            assert_eq!(reader.read(&mut [0]), Ok(1));
            for _ in 0..patience {
                corank_user::thread::yield_now();
            }
            kill_and_wait(child.expect("a process"));
            let data = fs::read("file").expect("the file");
            assert!(data.len().is_multiple_of(PIECE));
            assert!(data.chunks(PIECE).all(|piece| piece == pattern(PIECE)));
            fs::remove("file").expect("exit has closed it");
        }
    });
}

fn exit_closes_before_wait_returns() {
    in_directory(|| {
        for length in [1, 5000, 70_000] {
            let code = exit_code(|| {
                let file = File::create("file").expect("room");
                file.write_all(&pattern(length)).expect("room");
                core::mem::forget(file);
                0
            });
            assert_eq!(code, 0);
            assert!(fs::read("file").expect("the file") == pattern(length));
            fs::remove("file").expect("exit has closed it");
        }
    });
}

fn files_have_the_calendars_date() {
    in_directory(|| {
        let now = || corank_user::time::calendar().expect("this machine has a calendar") as i64;
        let before = now();
        fs::write("a", b"x").expect("room");
        let modified = fs::status("a").expect("it is there").modified;
        // FAT counts in steps of two seconds.
        assert!((before - 2..=now() + 2).contains(&modified));
        fs::remove("a").expect("it is not open");
    });
}
