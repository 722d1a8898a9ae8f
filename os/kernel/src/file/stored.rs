//! Files of the archive, opened for reading.
use crate::lock::Mutex;
use crate::memory::account::Charge;
use crate::memory::user::{BadAddress, UserBuffer, UserMemory};
use crate::pace::{self, checkpoint};

/// An open file of the archive, and how far it has been read.
#[derive(Debug)]
pub(crate) struct Stored {
    data: &'static [u8],
    position: Mutex<usize>,
    _charge: Charge,
}

impl Stored {
    /// Makes the file with these contents, read from the beginning, which this charge pays for.
    pub(crate) fn new(data: &'static [u8], charge: Charge) -> Stored {
        Stored {
            data,
            position: Mutex::new(0),
            _charge: charge,
        }
    }

    /// Reads what is left, at most as much as fits into the buffer, if that is one piece of work.
    ///
    /// Returns `None` if it is longer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_at_once(
        &self,
        memory: &UserMemory,
        mut buffer: UserBuffer,
    ) -> Option<Result<usize, BadAddress>> {
        (buffer.length <= pace::BYTES).then(|| self.read_some(memory, &mut buffer))
    }

    /// Reads what is left, at most as much as fits into the buffer.
    ///
    /// Returns the number of bytes, which is 0 at the end.
    ///
    /// # Errors
    /// When the buffer is not the program's to write.
    pub(crate) async fn read(
        &self,
        memory: &UserMemory,
        buffer: &mut UserBuffer,
    ) -> Result<usize, BadAddress> {
        let mut count = 0;
        loop {
            let now = self.read_some(memory, buffer)?;
            count += now;
            if now == 0 || buffer.length == 0 {
                return Ok(count);
            }
            checkpoint().await;
        }
    }

    /// Reads one piece.
    fn read_some(&self, memory: &UserMemory, buffer: &mut UserBuffer) -> Result<usize, BadAddress> {
        let mut position = self.position.lock();
        let rest = &self.data[*position..];
        let part = &rest[..rest.len().min(buffer.length).min(pace::BYTES)];
        memory.with_space(|space| space.write(buffer.address, part), Ok(()))?;
        *position += part.len();
        buffer.advance(part.len());
        Ok(part.len())
    }
}
