//! The kernel's ELF loader.

#[path = "../../os/kernel/src/elf_loader.rs"]
#[allow(dead_code, clippy::all, reason = "it is checked where it is")]
mod elf_loader;

use crate::memory::address_space::AddressSpace;
use crate::memory::frame;
use crate::memory::page_table::Flags;
use elf::ElfBytes;
use elf::abi::{PF_W, PF_X, PT_LOAD};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The frames for one program: enough for each way in which memory runs out.
const FRAMES: usize = 64;

/// Loads the input as a program.
///
/// # Panics
/// Panics if what is loaded is not what the file says.
pub fn run(data: &[u8]) {
    frame::set_free(FRAMES);
    let mut space = AddressSpace::default();
    let loaded = {
        let mut load = pin!(elf_loader::load(data, &mut space));
        match load.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(loaded) => loaded,
            Poll::Pending => unreachable!("nothing is more urgent"),
        }
    };
    if let Ok(entry) = loaded {
        compare(data, entry, &space);
    }
}

fn compare(data: &[u8], entry: usize, space: &AddressSpace) {
    let (_, flags) = space.byte(entry).expect("it begins in the program");
    assert!(flags.contains(Flags::EXECUTE));
    let file = ElfBytes::<LittleEndian>::minimal_parse(data).expect("it was parsed");
    let segments = file.segments().expect("it has segments");
    let is_loaded = |it: &ProgramHeader| it.p_type == PT_LOAD && it.p_memsz > 0;
    for segment in segments.iter().filter(is_loaded) {
        let bytes = file.segment_data(&segment).expect("it was read");
        for at in 0..segment.p_memsz as usize {
            let address = segment.p_vaddr as usize + at;
            let (byte, flags) = space.byte(address).expect("it is mapped");
            assert_eq!(byte, bytes.get(at).copied().unwrap_or(0));
            assert_eq!(flags.contains(Flags::WRITE), segment.p_flags & PF_W != 0);
            assert_eq!(flags.contains(Flags::EXECUTE), segment.p_flags & PF_X != 0);
            assert!(address < space.heap);
        }
    }
}
