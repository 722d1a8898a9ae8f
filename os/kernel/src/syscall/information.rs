//! What the kernel says of itself and of the processes, and which of them the console belongs to.
use super::Result;
use crate::device::disk;
use crate::memory::{frame, heap, stack};
use crate::pace::Pace;
use crate::process::{self, Process};
use crate::ring::Parked;
use crate::{clock, console, hart};
use corank_abi::call::FAILED;
use corank_abi::information::SystemStatus;
use corank_abi::rights::CONSOLE;

/// Copies a value of the interface to the program.
pub(super) fn write<T: Copy>(process: &Process, address: usize, value: &T) -> Result {
    // SAFETY: the values of `corank_abi` that are copied have a C layout without padding.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>())
    };
    process.with_memory(|space| space.write(address, bytes), Ok(()))?;
    Ok(0)
}

pub(super) async fn process_list(process: &Process, address: usize, room: usize) -> Result {
    let Ok(records) = process::records(&process.account).await else {
        return Ok(FAILED);
    };
    let mut pace = Pace::default();
    for (number, record) in records.iter().take(room).enumerate() {
        pace.step().await;
        write(
            process,
            address.wrapping_add(number * size_of_val(record)),
            record,
        )?;
    }
    Ok(records.len() as isize)
}

#[inline(never)]
pub(super) fn system_status(process: &Process, address: usize) -> Result {
    let disk = disk::get().map(disk::Disk::totals).unwrap_or_default();
    let (heap, heap_used) = heap::used();
    let executor = hart::executor();
    write(
        process,
        address,
        &SystemStatus {
            uptime: clock::milliseconds(),
            processes: process::count() as u64,
            coroutines: executor.live() as u64,
            ready: executor.published().ready().bits(),
            stacks: (hart::count() + stack::in_use()) as u64,
            frames: frame::all() as u64,
            frames_free: frame::free() as u64,
            heap: heap as u64,
            heap_used: heap_used as u64,
            disk_requests: disk.requests,
            disk_most_under_way: disk.most_under_way,
            waiting_read: size_of::<Parked>() as u64,
        },
    )
}

#[inline(never)]
pub(super) fn set_group(process: &Process, pid: usize, group: usize) -> isize {
    let pid = if pid == 0 { process.pid } else { pid };
    let member = process::find(pid).filter(|member| process.may_act_on(member));
    let Some(member) = member else {
        return FAILED;
    };
    let group = if group == 0 { pid } else { group };
    if process.put_in_group(&member, group) {
        0
    } else {
        FAILED
    }
}

#[inline(never)]
pub(super) fn set_foreground(process: &Process, group: usize) -> isize {
    if !process.has_right(CONSOLE) {
        return FAILED;
    }
    let group = (group != 0).then(|| process.named_group(group));
    // Else nothing would end what runs in front.
    if group.is_some_and(|group| !process::has_member(group)) {
        return FAILED;
    }
    console::set_foreground(group);
    0
}
