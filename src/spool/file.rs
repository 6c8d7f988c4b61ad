//! Files, and the directory where they are.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::SpoolError;

const SUFFIX: &str = ".spool";

/// A directory with the files of one slot of one cluster; there may be others' files beside them. Clones share it.
#[derive(Debug, Clone)]
pub struct Directory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// What the names of this slot's files begin with. No other slot's do: there is no `-` in a slot's name, nor in an identifier.
    prefix: String,
    /// Bytes in files.
    bytes: AtomicU64,
}

impl Directory {
    /// Makes the directory if it is not there, readable for nobody else; removes the files that an earlier session of the slot left, and finds
    /// out whether files can be made. Blocks.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn open(path: &Path, system_identifier: &str, slot: &str) -> Result<Self, SpoolError> {
        let cannot = |source| SpoolError::Directory {
            directory: path.to_owned(),
            source,
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(cannot)?;
        let directory = Directory {
            shared: Arc::new(Shared {
                path: path.to_owned(),
                prefix: format!("walferry-{system_identifier}-{slot}-"),
                bytes: AtomicU64::new(0),
            }),
        };
        directory.remove_leftovers().map_err(cannot)?;
        drop(directory.file(0)?);
        Ok(directory)
    }

    /// Finds out whether the directory could be opened, and leaves nothing changed. Blocks.
    ///
    /// # Errors
    /// It could not be used.
    pub fn probe(path: &Path) -> Result<(), SpoolError> {
        // What is not there is made, in the nearest that is.
        let existing = path
            .ancestors()
            .find(|path| path.exists() || path.as_os_str().is_empty());
        let mut existing = existing.unwrap_or(path);
        if existing.as_os_str().is_empty() {
            existing = Path::new(".");
        }
        let probe = existing.join(format!("walferry-probe-{:016x}", fastrand::u64(..)));
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(&probe);
        let removed = made.and_then(|_| fs::remove_file(&probe));
        removed.map_err(|source| SpoolError::Directory {
            directory: path.to_owned(),
            source,
        })
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        let (mut files, mut bytes) = (0_u64, 0_u64);
        for entry in fs::read_dir(&self.shared.path)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| self.is_ours(name)) {
                continue;
            }
            let length = entry.metadata().map_or(0, |metadata| metadata.len());
            match fs::remove_file(entry.path()) {
                Ok(()) => {
                    files = files.saturating_add(1);
                    bytes = bytes.saturating_add(length);
                }
                // Whoever made it has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if files > 0 {
            tracing::info!(
                directory = %self.shared.path.display(),
                files,
                bytes,
                "what an earlier session had spooled is removed; postgres sends it again"
            );
        }
        Ok(())
    }

    fn is_ours(&self, name: &str) -> bool {
        let Some(rest) = name
            .strip_prefix(&self.shared.prefix)
            .and_then(|rest| rest.strip_suffix(SUFFIX))
        else {
            return false;
        };
        rest.split_once('-').is_some_and(|(xid, number)| {
            let digits = |text: &str, is: fn(&char) -> bool| !text.is_empty() && text.chars().all(|c| is(&c));
            digits(xid, char::is_ascii_digit) && digits(number, char::is_ascii_hexdigit)
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Bytes in files.
    pub(super) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// A new file for a transaction, for nobody else to read.
    pub(super) fn file(&self, xid: u32) -> Result<SpoolFile, SpoolError> {
        let name = format!("{}{xid}-{:08x}{SUFFIX}", self.shared.prefix, fastrand::u32(..));
        let path = self.shared.path.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Ok(file) => Ok(SpoolFile {
                file,
                path,
                length: AtomicU64::new(0),
                shared: Arc::clone(&self.shared),
            }),
            Err(source) => Err(SpoolError::Create { path, source }),
        }
    }
}

/// A file, which is removed with the last that has it.
#[derive(Debug)]
pub(super) struct SpoolFile {
    file: File,
    path: PathBuf,
    length: AtomicU64,
    shared: Arc<Shared>,
}

impl SpoolFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes at this place, which is the end or lies before it; where the file ends then.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<u64, SpoolError> {
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|source| SpoolError::Write {
            path: self.path.clone(),
            source,
        })?;
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.set_length(end.max(self.length.load(Ordering::Relaxed)));
        Ok(end)
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read_at(bytes, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Nothing from here on is needed. Where the file system does not give the room back, it is written over later.
    pub(super) fn truncate(&self, length: u64) {
        if self.file.set_len(length).is_ok() {
            self.set_length(length);
        }
    }

    fn set_length(&self, length: u64) {
        let before = self.length.swap(length, Ordering::Relaxed);
        self.shared.bytes.fetch_sub(before, Ordering::Relaxed);
        self.shared.bytes.fetch_add(length, Ordering::Relaxed);
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.set_length(0);
        // One that a later session has taken for a leftover is gone.
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %self.path.display(), %error, "a file of the spool cannot be removed; the next start tries again");
        }
    }
}
