//! Uses a disk with a file system that may be damaged.
//!
//! The answer of a call does not matter, only that it comes, and soon.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use corank_abi::call::DIRECTORY_ENTRY;
use corank_abi::file::{DIRECTORY, DirectoryEntry};
use corank_user::fs::{self, File, From, Options};
use corank_user::{println, raw};
use fastrand::Rng;

/// Directories that are read, entries of each, and bytes of each file.
const DIRECTORIES: usize = 12;
const ENTRIES: usize = 40;
const BYTES: usize = 40_000;
/// Changes after that.
const CHANGES: usize = 40;

/// Reads what is there and changes it, and calls `check` between the steps.
pub(crate) fn attack(seed: u64, mut check: impl FnMut()) {
    let rng = &mut Rng::with_seed(seed);
    let mut found = Found {
        directories: vec![String::from("/")],
        files: vec![String::from("/nothing")],
    };
    let mut at = 0;
    while let Some(directory) = found.directories.get(at).cloned()
        && at < DIRECTORIES
    {
        found.visit(&directory);
        check();
        at += 1;
    }
    println!(
        "{} directories, {} files",
        found.directories.len(),
        found.files.len()
    );
    for path in &found.files {
        let _ = fs::status(path);
        if let Ok(file) = File::open(path) {
            read(&file);
        }
        check();
    }
    for _ in 0..CHANGES {
        found.change(rng);
        check();
    }
    let _ = fs::space();
    let _ = fs::sync();
    check();
}

struct Found {
    directories: Vec<String>,
    files: Vec<String>,
}

impl Found {
    fn visit(&mut self, directory: &str) {
        let path = format!("{directory}\0");
        let mut entry = DirectoryEntry {
            next: 0,
            status: Default::default(),
            name_length: 0,
            name: [0; corank_abi::file::NAME_SIZE],
        };
        for _ in 0..ENTRIES {
            let place = (&raw mut entry).expose_provenance();
            let arguments = [
                path.as_ptr().expose_provenance(),
                entry.next as usize,
                place,
            ];
            // SAFETY: the kernel reads the path, which ends with a NUL, and writes an entry into
            // `entry`.
            if unsafe { raw::system_call(DIRECTORY_ENTRY, arguments) } != 1 {
                return;
            }
            let name = &entry.name[..entry.name_length as usize];
            let name = str::from_utf8(name).expect("the kernel gives UTF-8");
            let path = format!("{}/{name}", directory.trim_end_matches('/'));
            match entry.status.kind {
                DIRECTORY => self.directories.push(path),
                _ => self.files.push(path),
            }
        }
    }

    /// Makes one change of any kind, to any file or directory.
    fn change(&mut self, rng: &mut Rng) {
        let file = self.files[rng.usize(..self.files.len())].clone();
        let directory = &self.directories[rng.usize(..self.directories.len())];
        let fresh = format!(
            "{}/new file {}",
            directory.trim_end_matches('/'),
            rng.u8(..8)
        );
        match rng.u8(..10) {
            0 => drop(fs::remove(&file)),
            1 => drop(fs::remove_directory(directory)),
            2 => drop(fs::make_directory(&fresh)),
            3 => drop(fs::rename(&file, &fresh)),
            4 => drop(fs::rename(directory, &fresh)),
            5 => {
                if let Ok(file) = Options::read_write().open(&file) {
                    let _ = file.truncate(rng.u64(..100_000));
                }
            }
            6 => {
                if let Ok(file) = Options::read_write().open(&file) {
                    let bits = rng.u8(..22);
                    let _ = file.seek(From::Start(rng.u64(..1 << bits)));
                    let _ = file.write(&[7; 3000]);
                }
            }
            7 => drop(fs::change_directory(directory)),
            _ => {
                let _ = fs::write(&fresh, &vec![1; rng.usize(..20_000)]);
                self.files.push(fresh.to_string());
            }
        }
    }
}

/// Reads the beginning of a file and the place that is said to be its end.
fn read(file: &File) {
    let mut buffer = vec![0; 4000];
    let mut rest = BYTES;
    while rest > 0
        && let Ok(count @ 1..) = file.read(&mut buffer)
    {
        rest = rest.saturating_sub(count);
    }
    let _ = file.seek(From::End(-3000));
    let _ = file.read(&mut buffer);
}
