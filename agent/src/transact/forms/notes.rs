// SPDX-License-Identifier: Apache-2.0
//! Notes: comments that say why an entry is in its file.

use super::Checked;
use std::fmt::Write as _;

/// Longest line of a note, and most lines of one.
pub(super) const NOTE_BYTES: usize = 240;
pub(super) const NOTE_LINES: usize = 8;

/// The first line of a file whose entries have notes.
pub(super) const HEADER: &str =
    "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n";

/// Refuses a note that could end its comment. A backslash at the end of a line continues it for some readers.
pub(super) fn check(note: &[String]) -> Checked {
    if note.len() > NOTE_LINES {
        return Err(format!("note: expected at most {NOTE_LINES} lines"));
    }
    note.iter().try_for_each(|line| {
        if line.is_empty() || line.len() > NOTE_BYTES {
            return Err(format!("note: expected lines of 1 to {NOTE_BYTES} bytes"));
        }
        let fits = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'\\';
        if line.bytes().all(fits) {
            return Ok(());
        }
        Err(format!(
            "note: expected printable ASCII without backslashes, got {line:?}"
        ))
    })
}

/// Renders the entries, each below its note.
pub(super) fn above(notes: &[&[String]], entries: &[String]) -> String {
    let mut text = String::new();
    if notes.iter().any(|note| !note.is_empty()) {
        text.push_str(HEADER);
    }
    for (note, entry) in notes.iter().zip(entries) {
        for line in *note {
            let _ = writeln!(text, "# {line}");
        }
        text.push_str(entry);
    }
    text
}
