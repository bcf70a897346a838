//! Puts a secret file in its place, whole or not at all, and never over another.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Writes `content` to a new file `path`, readable by its owner alone. `AlreadyExists` when anything is there.
pub(super) fn place(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let made = make_private_folders(folder)?;
    let result = place_in(folder, path, content);
    if result.is_err() {
        // Only what was made here, and only while it is empty.
        for folder in made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
    result
}

fn place_in(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let temp = Temp::create(folder)?;
    write_durably(&temp, content)?;
    match fs::hard_link(&temp.path, path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        // A file system without hard links: claim the name first, then replace our own empty claim.
        Err(_) => {
            drop(private_file(path)?);
            fs::rename(&temp.path, path).inspect_err(|_| drop(fs::remove_file(path)))?;
        }
    }
    sync_folder(folder).inspect_err(|_| drop(fs::remove_file(path)))
}

fn write_durably(temp: &Temp, content: &[u8]) -> io::Result<()> {
    let mut file = &temp.file;
    file.write_all(content)?;
    file.sync_all()
}

/// A file that is gone when this is dropped.
struct Temp {
    path: PathBuf,
    file: File,
}

impl Temp {
    fn create(folder: &Path) -> io::Result<Temp> {
        let random: [u8; 8] = crate::agent::random();
        let path = folder.join(format!(".key.{:016x}.tmp", u64::from_le_bytes(random)));
        let file = private_file(&path)?;
        Ok(Temp { path, file })
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A new file, 0600 from its first moment; the second step undoes a umask that takes the owner's bits too.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        if let Err(error) = file.set_permissions(fs::Permissions::from_mode(0o600)) {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

/// Makes the folder and its missing parents 0700; gives those that were made, outermost first.
fn make_private_folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut missing = Vec::new();
    let mut at = folder;
    while !at.as_os_str().is_empty() && !at.exists() {
        missing.push(at.to_owned());
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    let mut made = Vec::new();
    for folder in missing.into_iter().rev() {
        match private_folder(&folder) {
            Ok(()) => made.push(folder),
            // Another process makes the same folders right now.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(error) => {
                for folder in made.iter().rev() {
                    let _ = fs::remove_dir(folder);
                }
                return Err(error);
            }
        }
    }
    for parent in made.iter().filter_map(|folder| folder.parent()) {
        // A name that vanishes with the power takes everything below it along.
        sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
    }
    Ok(made)
}

fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    builder.create(folder)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some network file systems do not know this call on folders, and order names by themselves.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}
