// SPDX-License-Identifier: Apache-2.0
//! Pages of the kernel's ring buffer, as read from `trace_pipe_raw`: a header, then events.

use super::format::Format;

/// Flags in the commit word.
const LOST: u64 = 1 << 31;
const LOST_TOLD: u64 = 1 << 30;
/// The bits of the commit word that are the length.
const LENGTH: u64 = (1 << 27) - 1;

/// Values of an event's `type_len` that are not lengths.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Number of bits of an event's time difference.
const DELTA_BITS: u32 = 27;
/// The high bits that an absolute time stamp takes from the page's own.
const STAMP_HIGH: u64 = !((1 << 59) - 1);

/// The layout of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    commit: usize,
    commit_bytes: usize,
    data: usize,
    /// Length of a page in bytes.
    pub page_bytes: usize,
}

/// What a page says about events that were overwritten before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// None.
    None,
    /// This many.
    Count(u64),
    /// Some; the page had no room for the number.
    Some,
}

impl Layout {
    /// Parses the text of `events/header_page`.
    ///
    /// # Errors
    ///
    /// What it lacks.
    pub fn from_text(text: &str) -> Result<Self, String> {
        // The file is the body of a format without name and ID.
        let format = Format::parse(&format!("name: header_page\nID: 0\nformat:\n{text}"))?;
        let commit = format.field("commit")?;
        let data = format.field("data")?;
        let stamp = format.field("timestamp")?;
        let fits =
            stamp.offset == 0 && stamp.bytes == 8 && commit.offset == 8 && matches!(commit.bytes, 4 | 8);
        if !fits || data.offset < commit.offset + commit.bytes || data.bytes < 16 || data.bytes > 1 << 24 {
            return Err("unknown layout of the page header".to_owned());
        }
        Ok(Self {
            commit: commit.offset,
            commit_bytes: commit.bytes,
            data: data.offset,
            page_bytes: data.offset + data.bytes,
        })
    }

    /// Passes each event of a page to `each`, with its time and bytes. Returns what was lost before
    /// the page.
    ///
    /// # Errors
    ///
    /// The page is invalid; events before the damage have been passed on.
    pub fn read(&self, page: &[u8], mut each: impl FnMut(u64, &[u8])) -> Result<Lost, String> {
        let mut at_ns = word(page, 0, 8).ok_or("page without a header")?;
        let commit = word(page, self.commit, self.commit_bytes).ok_or("page without a header")?;
        let length = usize::try_from(commit & LENGTH).unwrap_or(usize::MAX);
        let end = self.data.saturating_add(length);
        let events = page
            .get(self.data..end)
            .ok_or_else(|| format!("page of {} bytes claims a content of {length} bytes", page.len()))?;
        let lost = match (commit & LOST != 0, commit & LOST_TOLD != 0) {
            (false, _) => Lost::None,
            (true, true) => word(page, end, self.commit_bytes).map_or(Lost::Some, Lost::Count),
            (true, false) => Lost::Some,
        };
        let mut rest = events;
        while let Some(header) = word(rest, 0, 4) {
            let (kind, delta) = ((header & 31) as u32, header >> 5);
            let short = || format!("an event of type {kind} exceeds its page");
            let first = || word(rest, 4, 4).ok_or_else(short);
            let (begin, bytes) = match kind {
                PADDING if delta == 0 => break,
                PADDING => {
                    at_ns = at_ns.wrapping_add(delta);
                    rest = rest.get(4 + whole(first()?)..).ok_or_else(short)?;
                    continue;
                }
                TIME_EXTEND => {
                    at_ns = at_ns.wrapping_add((first()? << DELTA_BITS) + delta);
                    rest = &rest[8..];
                    continue;
                }
                TIME_STAMP => {
                    at_ns = (at_ns & STAMP_HIGH) | ((first()? << DELTA_BITS) + delta);
                    rest = &rest[8..];
                    continue;
                }
                0 => (
                    8,
                    whole(first()?)
                        .checked_sub(4)
                        .ok_or_else(short)?
                        .next_multiple_of(4),
                ),
                words => (4, words as usize * 4),
            };
            at_ns = at_ns.wrapping_add(delta);
            each(at_ns, rest.get(begin..begin + bytes).ok_or_else(short)?);
            rest = &rest[begin + bytes..];
        }
        Ok(lost)
    }
}

fn whole(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX / 2)
}

/// Reads a number in the machine's byte order; None if it exceeds the bytes.
#[must_use]
pub fn word(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let found = bytes.get(at..at.checked_add(length)?)?;
    Some(match length {
        1 => u64::from(found[0]),
        2 => u64::from(u16::from_ne_bytes(found.try_into().ok()?)),
        4 => u64::from(u32::from_ne_bytes(found.try_into().ok()?)),
        8 => u64::from_ne_bytes(found.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(commit: u64, events: &[u32]) -> Vec<u8> {
        let mut bytes = 1000_u64.to_ne_bytes().to_vec();
        bytes.extend((commit | (events.len() as u64 * 4)).to_ne_bytes());
        bytes.extend(events.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    type Found = Vec<(u64, Vec<u8>)>;

    fn read(page: &[u8]) -> (Found, Result<Lost, String>) {
        let layout = Layout::from_text(HEADER).unwrap();
        let mut found = Vec::new();
        let lost = layout.read(page, |at_ns, bytes| found.push((at_ns, bytes.to_vec())));
        (found, lost)
    }

    #[test]
    fn times_add_up_over_all_types() {
        let stamp: u64 = 5 << DELTA_BITS | 7;
        let words = [
            7 << 5 | 1,
            11, // one word, 7 ns later
            3 << 5 | TIME_EXTEND,
            2, // 2 * 2^27 + 3 ns
            1 << 5,
            12,
            21,
            22, // a length of its own, 1 ns later
            9 << 5 | PADDING,
            4, // discarded, 9 ns
            7 << 5 | TIME_STAMP,
            5,
            2 << 5 | 2,
            31,
            32,
            PADDING,
            99,
            99, // the rest is empty
        ];
        let (found, lost) = read(&page(0, &words));
        assert_eq!(lost, Ok(Lost::None));
        let times: Vec<u64> = found.iter().map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(times, [1007, 1007 + (2 << DELTA_BITS) + 3 + 1, stamp + 2]);
        assert_eq!(found[1].1, [21_u32.to_ne_bytes(), 22_u32.to_ne_bytes()].concat());
    }

    #[test]
    fn losses_are_told() {
        assert_eq!(read(&page(LOST, &[1, 0])).1, Ok(Lost::Some));
        let mut told = page(LOST | LOST_TOLD, &[1, 0]);
        told.extend(77_u64.to_ne_bytes());
        assert_eq!(read(&told).1, Ok(Lost::Count(77)));
    }

    #[test]
    fn a_32_bit_kernel_writes_shorter_words() {
        let header = HEADER
            .replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4")
            .replace("data;\toffset:16;\tsize:4080", "data;\toffset:12;\tsize:4084");
        let layout = Layout::from_text(&header).unwrap();
        let mut page = 1000_u64.to_ne_bytes().to_vec();
        for word in [u32::try_from(LOST | LOST_TOLD).unwrap() | 8, 7 << 5 | 1, 11, 77] {
            page.extend(word.to_ne_bytes());
        }
        let mut at = Vec::new();
        let lost = layout.read(&page, |at_ns, _| at.push(at_ns));
        assert_eq!((lost, at), (Ok(Lost::Count(77)), vec![1007]));
    }

    #[test]
    fn what_runs_over_its_page_is_damage() {
        assert!(read(&page(0, &[5, 0])).1.is_err());
        assert!(read(&page(0, &[0, 2])).1.is_err());
        assert!(read(&page(0, &[0, u32::MAX])).1.is_err());
        assert!(read(&page(4096, &[1, 0])).1.is_err());
        assert!(read(&[0; 9]).1.is_err());
    }

    #[test]
    fn an_unknown_header_is_refused() {
        assert!(Layout::from_text("").is_err());
        assert!(Layout::from_text(&HEADER.replace("offset:8", "offset:12")).is_err());
        assert_eq!(Layout::from_text(HEADER).unwrap().page_bytes, 4096);
    }
}
