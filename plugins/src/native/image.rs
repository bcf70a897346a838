//! The bytes of a library, where a child can load them and nobody can change them any more.
#[cfg(not(target_os = "linux"))]
use std::fs::{self, File, OpenOptions};
use std::{io, os::fd::OwnedFd};

/// The bytes that were hashed, held by a descriptor: what runs is what was pinned, whatever becomes of the file.
#[derive(Debug)]
pub(super) struct Image(OwnedFd);

impl Image {
    /// Writes the bytes into memory and seals it.
    #[cfg(target_os = "linux")]
    pub(super) fn new(library: &[u8]) -> io::Result<Image> {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
        let plain = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let created = match memfd_create(c"muretai-plugin", plain | MemfdFlags::NOEXEC_SEAL) {
            // Before Linux 6.3.
            Err(rustix::io::Errno::INVAL) => memfd_create(c"muretai-plugin", plain),
            created => created,
        };
        let mut file = std::fs::File::from(created?);
        io::Write::write_all(&mut file, library)?;
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Image(file.into()))
    }

    /// Writes the bytes into a private file that has no name any more, and keeps a descriptor that cannot write.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(library: &[u8]) -> io::Result<Image> {
        use std::{
            os::unix::fs::OpenOptionsExt,
            sync::atomic::{AtomicU32, Ordering},
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("muretai-plugin-{}-{number}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = io::Write::write_all(&mut file, library).and_then(|()| File::open(&path));
        fs::remove_file(&path)?;
        Ok(Image(written?.into()))
    }

    /// A descriptor for a child.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn an_image_is_what_was_given_and_cannot_be_changed() {
        let image = Image::new(b"bytes").unwrap();
        let mut file = std::fs::File::from(image.share().unwrap());
        file.rewind().unwrap();
        assert!(file.write(b"other").is_err());
        assert!(file.set_len(1).is_err());
        let mut read = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"bytes");
    }
}
