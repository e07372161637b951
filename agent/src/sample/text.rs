// SPDX-License-Identifier: Apache-2.0
//! Parses numbers in the kernel's texts without allocating.

use super::feed::{Cell, Parser, Progress, LIE, MISSING};
use memchr::memchr;

/// Parses the integer at the beginning of a text, after blanks; returns it and the rest. None if
/// there is none or it is too large.
pub fn number(text: &[u8]) -> Option<(Cell, &[u8])> {
    let blanks = text.iter().take_while(|byte| **byte == b' ').count();
    let text = &text[blanks..];
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        _ => (false, text),
    };
    let mut value: Cell = 0;
    let mut length = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(Cell::from(digit))?;
        length += 1;
    }
    (length > 0).then(|| (if negative { -value } else { value }, &digits[length..]))
}

/// Parses hundredths such as `12.34` at the beginning of a text; returns them and the rest.
pub fn hundredths(text: &[u8]) -> Option<(Cell, &[u8])> {
    let (whole, rest) = number(text)?;
    let (part, rest) = number(rest.strip_prefix(b".")?)?;
    let held = (0..100).contains(&part) && whole >= 0;
    let value = whole.checked_mul(100)?.checked_add(part)?;
    held.then_some((value, rest))
}

/// Returns the lines of a text, without their newlines.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(line)
    })
}

/// A file with one integer.
pub struct Number {
    /// Factor to multiply the number with.
    pub scale: Cell,
    /// Numbers that a working sensor can show.
    pub sane: std::ops::RangeInclusive<Cell>,
}

impl Number {
    /// Accepts any number.
    pub fn any() -> Self {
        Self {
            scale: 1,
            sane: MISSING + 2..=Cell::MAX,
        }
    }
}

impl Parser for Number {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let Some((value, rest)) = number(text) else {
            return Progress::Garbage;
        };
        if !rest.trim_ascii().is_empty() {
            return Progress::Garbage;
        }
        let scaled = value
            .checked_mul(self.scale)
            .filter(|_| self.sane.contains(&value));
        row[0] = scaled.unwrap_or(LIE);
        Progress::Done
    }
}

/// Reads some of many lines that hold a name and a number. Lines keep their places while a kernel
/// runs, so each is looked up where it was before; if it is not there, all lines are searched.
pub struct Keyed {
    /// Numbers of the lines, and their names including the separator, in order.
    wanted: Vec<(usize, Vec<u8>)>,
    scale: Cell,
    /// Where the last of them ends, with space for growing numbers.
    enough: usize,
}

/// Bytes by which the numbers of a file may grow before it takes a second read.
const GROWTH_BYTES: usize = 128;

impl Keyed {
    /// Finds the lines whose names are wanted, and returns their names; the numbers are multiplied
    /// by `scale`.
    pub fn layout(
        text: &[u8],
        separator: u8,
        scale: Cell,
        want: impl Fn(&str) -> bool,
    ) -> (Vec<String>, Self) {
        let mut names: Vec<String> = Vec::new();
        let mut wanted = Vec::new();
        let (mut at, mut enough) = (0, 0);
        for (place, line) in lines(text).enumerate() {
            at += line.len() + 1;
            let Some(end) = memchr(separator, line) else {
                continue;
            };
            let name = String::from_utf8_lossy(&line[..end]).into_owned();
            if want(&name) && !names.contains(&name) && number(&line[end + 1..]).is_some() {
                names.push(name);
                wanted.push((place, line[..=end].to_vec()));
                enough = at + GROWTH_BYTES;
            }
        }
        let keyed = Self {
            wanted,
            scale,
            enough,
        };
        (names, keyed)
    }

    fn value(&self, line: &[u8], key: &[u8]) -> Option<Cell> {
        number(line.strip_prefix(key)?)?.0.checked_mul(self.scale)
    }

    /// Searches all lines, because they have moved.
    fn search(&self, text: &[u8], row: &mut [Cell]) -> Progress {
        let mut found = false;
        for (cell, (_, key)) in row.iter_mut().zip(&self.wanted) {
            let value = lines(text).find_map(|line| self.value(line, key));
            found = found || value.is_some();
            *cell = value.unwrap_or(MISSING);
        }
        if found {
            Progress::Done
        } else {
            Progress::Garbage
        }
    }
}

impl Parser for Keyed {
    fn enough(&self) -> usize {
        self.enough
    }

    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        let mut rest = text;
        let mut place = 0;
        for (cell, (at, key)) in row.iter_mut().zip(&self.wanted) {
            while place < *at {
                match memchr(b'\n', rest) {
                    Some(end) => rest = &rest[end + 1..],
                    None => return Progress::More,
                }
                place += 1;
            }
            let Some(end) = memchr(b'\n', rest) else {
                return Progress::More;
            };
            match self.value(&rest[..end], key) {
                Some(value) => *cell = value,
                None => return self.search(text, row),
            }
            rest = &rest[end + 1..];
            place += 1;
        }
        Progress::Done
    }
}
