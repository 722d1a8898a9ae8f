//! What virtio devices have in common: how they are found, and the memory that they reach.
use crate::machine::Machine;
use crate::memory::PAGE_SIZE;
use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;
use virtio_drivers::transport::mmio::MmioTransport;
use virtio_drivers::transport::{DeviceType, Transport};
use virtio_drivers::{BufferDirection, Hal, PhysAddr};

/// Returns the machine's virtio devices of one type, and the numbers of their interrupts.
pub(super) fn devices(
    machine: &Machine,
    wanted: DeviceType,
) -> impl Iterator<Item = (MmioTransport<'static>, u32)> {
    let places = machine.virtio.iter().flatten();
    places.filter_map(move |(registers, interrupt)| {
        let header = NonNull::new(registers.start as *mut _)?;
        // SAFETY: the device tree says that the registers of a virtio device lie there, and they
        // are mapped.
        let transport = unsafe { MmioTransport::new(header, registers.len()) }.ok()?;
        if transport.device_type() == wanted {
            return Some((transport, *interrupt));
        }
        // Dropped, it would reset the device, which another driver may have set up already.
        core::mem::forget(transport);
        None
    })
}

/// Memory that a device may reach.
///
/// All of the kernel's is, at the address at which the kernel sees it.
pub(super) struct Dma;

impl Dma {
    fn layout(pages: usize) -> Layout {
        Layout::from_size_align(pages * PAGE_SIZE, PAGE_SIZE).expect("a queue is not that large")
    }
}

// SAFETY: the kernel's memory is mapped at its physical address, so that the pointers are also what
// the device needs. The heap gives each allocation to one owner, zeroed and aligned as the layout
// says.
unsafe impl Hal for Dma {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        // SAFETY: a queue has at least one page.
        let start = unsafe { alloc_zeroed(Dma::layout(pages)) };
        // A physical address of 0 says that there is no memory.
        let pointer = NonNull::new(start).unwrap_or(NonNull::dangling());
        (start as PhysAddr, pointer)
    }

    unsafe fn dma_dealloc(_: PhysAddr, start: NonNull<u8>, pages: usize) -> i32 {
        // SAFETY: the caller passes what `dma_alloc` has returned for so many pages.
        unsafe { dealloc(start.as_ptr(), Dma::layout(pages)) };
        0
    }

    unsafe fn mmio_phys_to_virt(address: PhysAddr, _: usize) -> NonNull<u8> {
        NonNull::new(address as *mut u8).expect("registers do not lie at 0")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        buffer.as_ptr().cast::<u8>() as PhysAddr
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
