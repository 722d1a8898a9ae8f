//! Faults of the kernel that a test asks for: none here.

pub(crate) fn fails_allocation() -> bool {
    false
}
