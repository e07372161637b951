// SPDX-License-Identifier: Apache-2.0
//! The journal of a transaction that is being undone.

use crate::error::{Error, Kind, Result};
use crate::transact::journal::{Entry, Writer};
use crate::transact::transaction::Transaction;
use std::io;
use std::path::{Path, PathBuf};

/// A journal that cannot be written.
#[derive(Debug)]
pub struct Unwritten {
    /// The journal's file.
    pub file: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl Unwritten {
    /// Records that a file cannot be written.
    pub fn of(file: &Path, error: io::Error) -> Self {
        Self {
            file: file.to_owned(),
            error,
        }
    }

    /// Returns the error to report before anything was changed.
    pub fn refusal(&self) -> Error {
        let message = format!("cannot write {}: {}", self.file.display(), self.error);
        Error::new(Kind::Journal, message)
            .hint("nothing was changed; free space on the disk or make it writable")
    }
}

/// A journal that is written for as long as that works.
pub struct UndoLog<'a> {
    file: &'a Path,
    writer: Option<Writer>,
    failure: Option<Unwritten>,
}

impl<'a> UndoLog<'a> {
    /// Opens a transaction's journal. If it cannot be written, an undo that is due continues: the
    /// old values are on disk and must be restored even if nothing more can be recorded.
    pub fn open(transaction: &'a Transaction, is_due: bool) -> Result<Self> {
        let file = transaction.file.as_path();
        let (writer, failure) = match Writer::open(file, transaction.valid_bytes) {
            Ok(writer) => (Some(writer), None),
            Err(error) => (None, Some(Unwritten::of(file, error))),
        };
        let log = Self {
            file,
            writer,
            failure,
        };
        if !is_due {
            log.check()?;
        }
        Ok(log)
    }

    /// Fails if something could not be written.
    pub fn check(&self) -> Result<()> {
        let failure = self.failure.as_ref();
        failure.map_or(Ok(()), |unwritten| Err(unwritten.refusal()))
    }

    /// Returns the failure, if there was one.
    pub fn failure(self) -> Option<Unwritten> {
        self.failure
    }

    /// Appends an entry, unless an earlier one failed.
    pub fn append(&mut self, entry: &Entry, sync: bool) {
        let Some(writer) = &mut self.writer else { return };
        let result = writer
            .append(entry)
            .and_then(|()| if sync { writer.sync() } else { Ok(()) });
        if let Err(error) = result {
            self.failure = Some(Unwritten::of(self.file, error));
            self.writer = None;
        }
    }
}
