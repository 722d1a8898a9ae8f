//! Files of the archive, opened for reading.
use crate::lock::Mutex;
use crate::memory::user::{BadAddress, UserBuffer};
use crate::process::Process;

/// An open file of the archive, and how far it has been read.
#[derive(Debug)]
pub(crate) struct Stored {
    data: &'static [u8],
    position: Mutex<usize>,
}

impl Stored {
    /// The file with these contents, read from the beginning.
    pub(crate) fn new(data: &'static [u8]) -> Stored {
        Stored {
            data,
            position: Mutex::new(0),
        }
    }

    /// Reads what is left, at most as much as fits into the buffer. Returns the number of bytes: 0 at the end.
    ///
    /// # Errors
    /// When the buffer is not the program's to write.
    pub(crate) fn read(&self, process: &Process, buffer: UserBuffer) -> Result<usize, BadAddress> {
        let mut position = self.position.lock();
        let rest = &self.data[*position..];
        let part = &rest[..rest.len().min(buffer.length)];
        process.with_memory(|space| space.write(buffer.address, part), Ok(()))?;
        *position += part.len();
        Ok(part.len())
    }
}
