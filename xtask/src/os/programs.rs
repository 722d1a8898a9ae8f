//! Programs from outside: checks of their files, and their names.

use anyhow::{Context, Result, bail, ensure};
use object::elf::{EM_RISCV, ET_EXEC, FileHeader64};
use object::endian::LittleEndian;
use object::read::elf::FileHeader;
use std::path::{Path, PathBuf};

/// A program as it lies in the archive.
pub(crate) type Entry = (String, Vec<u8>);

/// Checks programs from outside, as far as that is possible before anything is built.
///
/// # Errors
/// When one of them is not a file, is not an executable for 64-bit RISC-V, or has the name of
/// another one.
pub(super) fn check(programs: &[PathBuf]) -> Result<()> {
    for program in programs {
        let file = read(program)?;
        let wrong = || format!("{} is not a program", program.display());
        let header = FileHeader64::<LittleEndian>::parse(file.as_slice()).with_context(wrong)?;
        let kind = (
            header.e_machine(LittleEndian),
            FileHeader::e_type(header, LittleEndian),
        );
        ensure!(
            kind == (EM_RISCV, ET_EXEC),
            "{}: an executable for 64-bit RISC-V with fixed addresses is expected",
            wrong()
        );
    }
    names(programs).map(|_| ())
}

/// Adds the programs from outside to those of the system.
///
/// They are added unchanged: the kernel judges them. Returns the names of the system's programs
/// that they replace.
///
/// # Errors
/// When one cannot be read, or two of them have one name.
pub(super) fn add(entries: &mut Vec<Entry>, programs: &[PathBuf]) -> Result<Vec<String>> {
    let names = names(programs)?;
    let mut replaced: Vec<String> = names
        .iter()
        .filter(|name| entries.iter().any(|(other, _)| other == *name))
        .cloned()
        .collect();
    replaced.sort();
    entries.retain(|(name, _)| !replaced.contains(name));
    for (name, program) in names.into_iter().zip(programs) {
        entries.push((name, read(program)?));
    }
    Ok(replaced)
}

/// Returns the names of the programs in the archive: those of their files.
fn names(programs: &[PathBuf]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for program in programs {
        let name = program
            .file_name()
            .with_context(|| format!("{} is not a file", program.display()))?
            .to_string_lossy()
            .into_owned();
        if let Some(other) = names.iter().position(|other| *other == name) {
            bail!(
                "{} and {} would both be `{name}`",
                programs[other].display(),
                program.display()
            );
        }
        names.push(name);
    }
    Ok(names)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("can't read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed when the value is dropped.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("corank-{name}-{}", std::process::id()));
            std::fs::create_dir_all(folder.join("other")).unwrap();
            Self(folder)
        }

        fn file(&self, name: &str, content: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, content).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Returns the header of an ELF file for this machine and of this kind.
    fn header(machine: u16, kind: u16) -> Vec<u8> {
        let mut header = vec![0; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header[16..18].copy_from_slice(&kind.to_le_bytes());
        header[18..20].copy_from_slice(&machine.to_le_bytes());
        header[20] = 1;
        header
    }

    #[test]
    fn a_path_that_leads_nowhere_and_a_file_that_is_no_program_are_refused() {
        let folder = Folder::new("check");
        let error = |path: &PathBuf| {
            let error = check(std::slice::from_ref(path)).unwrap_err();
            format!("{error:#}")
        };
        let missing = folder.0.join("missing");
        assert!(error(&missing).starts_with("can't read "));
        assert!(error(&folder.0).starts_with("can't read "));
        let text = folder.file("text", b"#!/bin/sh\n");
        assert!(error(&text).contains("text is not a program"));
        let foreign = folder.file("foreign", &header(62, ET_EXEC));
        assert!(error(&foreign).contains("64-bit RISC-V"));
        let object = folder.file("object", &header(EM_RISCV, 1));
        assert!(error(&object).contains("64-bit RISC-V"));
        let good = folder.file("good", &header(EM_RISCV, ET_EXEC));
        check(&[good]).unwrap();
    }

    #[test]
    fn a_program_from_outside_replaces_the_systems_of_the_same_name() {
        let folder = Folder::new("replace");
        let program = |name: &str| (name.to_string(), b"the system's".to_vec());
        let mut entries = vec![program("cat"), program("echo")];
        let outside = [
            folder.file("cat", b"from outside"),
            folder.file("new", b"too"),
        ];
        assert_eq!(add(&mut entries, &outside).unwrap(), ["cat"]);
        entries.sort();
        let contents: Vec<(&str, &[u8])> = entries
            .iter()
            .map(|(name, content)| (name.as_str(), content.as_slice()))
            .collect();
        let expected: [(&str, &[u8]); 3] = [
            ("cat", b"from outside"),
            ("echo", b"the system's"),
            ("new", b"too"),
        ];
        assert_eq!(contents, expected);
    }

    #[test]
    fn two_programs_from_outside_with_one_name_are_refused() {
        let folder = Folder::new("twice");
        let first = folder.file("same", b"1");
        let second = folder.file("other/same", b"2");
        let error = add(&mut Vec::new(), &[first, second]).unwrap_err();
        assert!(error.to_string().ends_with("would both be `same`"));
    }
}
