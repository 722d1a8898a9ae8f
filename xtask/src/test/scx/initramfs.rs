//! The files of a machine, as Linux unpacks them when it starts: an archive of cpio's format
//! `newc`.

/// An archive that grows.
#[derive(Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    files: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const DEVICE: u32 = 0o020_666;
/// The name behind which nothing follows.
const END: &str = "TRAILER!!!";

impl Initramfs {
    pub(super) fn folder(&mut self, name: &str) {
        self.add(name, FOLDER, (0, 0), &[]);
    }

    pub(super) fn program(&mut self, name: &str, content: &[u8]) {
        self.add(name, PROGRAM, (0, 0), content);
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.add(name, DEVICE, (major, minor), &[]);
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.add(END, 0, (0, 0), &[]);
        self.bytes
    }

    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.files += 1;
        // inode, mode, user, group, links, time, size, device of the file, device that it is,
        // length of the name with its zero, checksum
        let fields = [
            self.files,
            mode,
            0,
            0,
            1,
            0,
            u32::try_from(content.len()).expect("a file of this format is below 4 GiB"),
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    /// Names and contents begin at multiples of four.
    fn align(&mut self) {
        let length = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_names_and_contents_are_aligned() {
        let mut files = Initramfs::default();
        files.folder("dev");
        files.program("init", b"12345");
        let bytes = files.finish();
        let starts: Vec<usize> = (0..bytes.len() - 6)
            .filter(|&at| &bytes[at..at + 6] == b"070701")
            .collect();
        // 110 bytes of header, the name with its zero, and the content.
        assert_eq!(starts, [0, 116, 116 + 116 + 8]);
        assert_eq!(bytes.len(), 116 + 124 + 124);
        assert_eq!(&bytes[116 + 110..116 + 115], b"init\0");
        assert_eq!(&bytes[116 + 116..116 + 121], b"12345");
        assert_eq!(&bytes[116 + 6 + 6 * 8..116 + 6 + 7 * 8], b"00000005");
    }
}
