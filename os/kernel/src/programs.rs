//! The programs in the archive that the boot loader put into memory: a tar file with the ELF files
//! by name.
use crate::machine::Machine;
use alloc::collections::BTreeMap;
use alloc::string::String;
use spin::Once;
use tar_no_std::TarArchiveRef;

static PROGRAMS: Once<BTreeMap<String, &'static [u8]>> = Once::new();

/// Reads the archive's table of contents.
pub(crate) fn init(machine: &Machine) {
    let archive = machine.archive.clone();
    // SAFETY: the device tree says that the archive lies there; boot leaves it alone, and nothing
    // writes to it.
    let bytes = unsafe { core::slice::from_raw_parts(archive.start as *const u8, archive.len()) };
    let mut programs = BTreeMap::new();
    if let Ok(archive) = TarArchiveRef::new(bytes) {
        for entry in archive.entries() {
            if let Ok(name) = entry.filename().as_str() {
                programs.insert(String::from(name.trim_start_matches("./")), entry.data());
            }
        }
    }
    PROGRAMS.call_once(|| programs);
}

/// Returns the contents of the file with this name.
pub(crate) fn find(name: &str) -> Option<&'static [u8]> {
    PROGRAMS.get()?.get(name).copied()
}

/// Returns the names of all files, in alphabetical order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS
        .get()
        .into_iter()
        .flat_map(|programs| programs.keys().map(String::as_str))
}
