// SPDX-License-Identifier: Apache-2.0
//! The file tree that the agent works on: the machine's own, or a fake or mounted one below a
//! folder.
//!
//! Requests, the catalog and callers of [`Root`] use absolute paths of the machine, such as
//! `/proc`, `/sys` and `/etc`. Only `Root` turns them into paths to open.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that stands for the machine's `/`.
#[derive(Debug, Clone)]
pub struct Root {
    base: PathBuf,
}

impl Root {
    /// Creates a tree whose `/` is the folder `base`; `/` itself for the machine that the agent
    /// runs on.
    pub fn new(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// Returns the path to open for the machine's absolute path `absolute`.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.base.join(absolute.trim_start_matches('/'))
    }

    /// Returns the folder that stands for `/`.
    #[must_use]
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Whether this is the tree of the machine that the agent runs on.
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.base == Path::new("/")
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read.
    pub fn read_bytes(&self, absolute: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(absolute))
    }

    /// Reads a file's text, without white space at both ends. Bytes that are not UTF-8 become
    /// replacement characters.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read.
    pub fn read_text(&self, absolute: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read_bytes(absolute)?)
            .trim()
            .to_owned())
    }

    /// Resolves all symbolic links of a path; `None` if the result is outside this tree. For an
    /// absent file, resolves the nearest folder that exists.
    ///
    /// # Errors
    ///
    /// A folder on the way cannot be inspected, unless it is absent.
    pub fn resolve(&self, absolute: &str) -> io::Result<Option<String>> {
        let base = fs::canonicalize(&self.base)?;
        let mut existing = PathBuf::from(absolute);
        let mut missing = Vec::new();
        let real = loop {
            match fs::canonicalize(self.path(&existing.to_string_lossy())) {
                Ok(real) => break real,
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && !is_link(&self.path(&existing.to_string_lossy())) =>
                {
                    let Some(name) = existing.file_name() else {
                        return Err(error);
                    };
                    missing.push(name.to_owned());
                    existing.pop();
                }
                Err(error) => return Err(error),
            }
        };
        let Ok(below) = real.strip_prefix(&base) else {
            return Ok(None);
        };
        let mut resolved = Path::new("/").join(below);
        resolved.extend(missing.iter().rev());
        Ok(resolved.into_os_string().into_string().ok())
    }

    /// Returns the names in a folder, sorted.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened or read.
    pub fn list(&self, absolute: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(self.path(absolute))?
            .filter_map(|entry| entry.ok().and_then(|entry| entry.file_name().into_string().ok()))
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Whether the path itself is a symbolic link, dangling or not.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}
