// SPDX-License-Identifier: Apache-2.0
//! Rules that decide whether a knob has its requested value, and what to write to restore the old
//! one.

use crate::bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How the value read back is compared with the requested one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Equal after collapsing white space.
    Exact,
    /// Equal as numbers.
    Integer,
    /// Equal as Y/N, 1/0, on/off.
    Boolean,
    /// The bracketed word, or the whole text, is the requested one.
    Choice,
    /// The word is in the list.
    Token,
    /// Equal as CPU masks.
    Mask,
    /// Any number that the kernel chose.
    Clamped,
}

impl Rule {
    /// Guesses the rule for a path from its content alone.
    #[must_use]
    pub fn guess(content: &[u8]) -> Self {
        if bracketed(&text(content)).is_some() {
            Self::Choice
        } else {
            Self::Exact
        }
    }

    /// Whether `now` means that `wanted` is in force.
    #[must_use]
    pub fn holds(self, wanted: &[u8], now: &[u8]) -> bool {
        if self == Self::Token {
            let set = text(now);
            let word = text(wanted);
            return match switched_off(&word) {
                Some(on) => has(&set, &word) || (!has(&set, on) && !set.is_empty()),
                None => has(&set, &word),
            };
        }
        self.same(wanted, now)
    }

    /// Whether two values of the same knob mean the same.
    fn same(self, one: &[u8], other: &[u8]) -> bool {
        let (one, other) = (text(one), text(other));
        let both = |reader: fn(&str) -> Option<i128>| {
            reader(&one).zip(reader(&other)).map(|(one, other)| one == other)
        };
        match self {
            Self::Exact | Self::Token => one == other,
            Self::Integer | Self::Clamped => both(number).unwrap_or(one == other),
            Self::Boolean => both(|text| truth(text).map(i128::from)).unwrap_or(one == other),
            Self::Choice => chosen(&one) == chosen(&other),
            Self::Mask => mask(&one)
                .zip(mask(&other))
                .map_or(one == other, |(one, other)| one == other),
        }
    }

    /// Whether `one` and `other` are the same state for a step that writes `new`.
    #[must_use]
    pub fn same_state(self, new: &[u8], one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Token => self.holds(new, one) == self.holds(new, other),
            _ => self.same(one, other),
        }
    }

    /// Returns what to write to restore `old` after a step that wrote `new`; `None` if nothing can
    /// or needs to be written.
    #[must_use]
    pub fn restoring(self, new: &[u8], old: &[u8]) -> Option<Bytes> {
        match self {
            Self::Choice => match bracketed(&text(old)) {
                Some(word) => Some(Bytes(format!("{word}\n").into_bytes())),
                None => Some(old.into()),
            },
            Self::Token => {
                let (word, set) = (text(new), text(old));
                let opposite = switched_off(&word).map_or_else(|| format!("NO_{word}"), str::to_owned);
                has(&set, &opposite).then(|| Bytes(format!("{opposite}\n").into_bytes()))
            }
            _ => Some(old.into()),
        }
    }
}

/// Whether the mask `inner` contains only CPUs of `outer`.
#[must_use]
pub fn mask_within(inner: &[u8], outer: &[u8]) -> bool {
    let (Some(inner), Some(outer)) = (mask(&text(inner)), mask(&text(outer))) else {
        return false;
    };
    let offset = |digits: &[u8]| digits.len();
    if offset(&inner) > offset(&outer) {
        return false;
    }
    let skip = outer.len() - inner.len();
    inner
        .iter()
        .zip(&outer[skip..])
        .all(|(inner, outer)| inner & !outer == 0)
}

/// Converts content to text with white space collapsed.
fn text(content: &[u8]) -> String {
    let text = String::from_utf8_lossy(content);
    text.trim_matches('\0')
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn number(text: &str) -> Option<i128> {
    let (negative, digits) = text
        .strip_prefix('-')
        .map_or((false, text), |digits| (true, digits));
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16).ok()?,
        None if digits.starts_with(|first: char| first.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "1" | "on" | "true" => Some(true),
        "n" | "no" | "0" | "off" | "false" => Some(false),
        _ => None,
    }
}

/// Returns the word in brackets; `sched/preempt` uses parentheses.
fn bracketed(text: &str) -> Option<&str> {
    let Some(open) = text.find('[') else {
        return text
            .split(' ')
            .find_map(|word| word.strip_prefix('(')?.strip_suffix(')'));
    };
    let start = open + 1;
    let length = text[start..].find(']')?;
    Some(&text[start..start + length])
}

fn chosen(text: &str) -> &str {
    bracketed(text).unwrap_or(text)
}

fn switched_off(word: &str) -> Option<&str> {
    word.strip_prefix("NO_")
}

fn has(set: &str, word: &str) -> bool {
    set.split(' ').any(|member| member == word)
}

/// Returns the hexadecimal digits of a CPU mask without separators and leading zeros.
fn mask(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|digit| *digit != ',')
        .map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect();
    let digits = digits.filter(|digits| !digits.is_empty())?;
    Some(digits.into_iter().skip_while(|digit| *digit == 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_switches_off_holds_where_the_word_itself_is_gone() {
        for (wanted, now, holds) in [
            ("NO_HRTICK", "GENTLE NO_HRTICK", true),
            ("NO_HRTICK", "GENTLE", true),
            ("NO_HRTICK", "GENTLE HRTICK", false),
            ("NO_HRTICK", "", false),
            ("HRTICK", "GENTLE NO_HRTICK", false),
            ("HRTICK", "GENTLE HRTICK", true),
        ] {
            assert_eq!(
                Rule::Token.holds(wanted.as_bytes(), now.as_bytes()),
                holds,
                "{wanted} in {now:?}"
            );
        }
    }

    #[test]
    fn rules_hold_as_the_format_says() {
        let cases: [(Rule, &str, &str, bool); 28] = [
            (
                Rule::Exact,
                "4096 131072\t6291456\n",
                "4096\t131072\t6291456\n",
                true,
            ),
            (Rule::Exact, "a", "b", false),
            (Rule::Integer, "16", "0x10\n", true),
            (Rule::Integer, "-1", "-1\n", true),
            (Rule::Integer, "", "0", false),
            (Rule::Integer, "60", "6", false),
            (Rule::Integer, "max", "max\n", true),
            (Rule::Integer, "max", "min\n", false),
            (Rule::Boolean, "1", "Y\n", true),
            (Rule::Boolean, "off", "N\n", true),
            (Rule::Boolean, "on", "N\n", false),
            (Rule::Boolean, "auto", "auto\n", true),
            (Rule::Boolean, "auto", "on\n", false),
            (Rule::Choice, "none", "[none] mq-deadline\n", true),
            (Rule::Choice, "mq-deadline", "[none] mq-deadline\n", false),
            (Rule::Choice, "performance\n", "performance\n", true),
            (Rule::Choice, "full", "none voluntary (full) \n", true),
            (Rule::Choice, "none", "none voluntary (full) \n", false),
            (Rule::Token, "NEXT_BUDDY", "A NEXT_BUDDY B\n", true),
            (Rule::Token, "NEXT_BUDDY", "A NO_NEXT_BUDDY B\n", false),
            (Rule::Token, "NO_NEXT_BUDDY", "A NO_NEXT_BUDDY B\n", true),
            (Rule::Mask, "f", "00000000,0000000f\n", true),
            (Rule::Mask, "3", "0000000f\n", false),
            (Rule::Mask, "0", "0000\n", true),
            (Rule::Mask, "all", "all\n", true),
            (Rule::Mask, "all", "any\n", false),
            (Rule::Clamped, "512", "512\n", true),
            (Rule::Clamped, "512", "256\n", false),
        ];
        for (rule, wanted, now, expected) in cases {
            assert_eq!(
                rule.holds(wanted.as_bytes(), now.as_bytes()),
                expected,
                "{rule:?} {wanted:?} {now:?}"
            );
        }
    }

    #[test]
    fn restoring_writes_words_and_bytes() {
        assert_eq!(
            Rule::Choice.restoring(b"x", b"[none] kyber\n"),
            Some("none\n".into())
        );
        assert_eq!(
            Rule::Choice.restoring(b"full", b"none (voluntary) full \n"),
            Some("voluntary\n".into())
        );
        assert_eq!(Rule::Integer.restoring(b"1", b"60\n"), Some("60\n".into()));
        assert_eq!(Rule::Token.restoring(b"NO_A\n", b"A B\n"), Some("A\n".into()));
        assert_eq!(Rule::Token.restoring(b"A\n", b"NO_A B\n"), Some("NO_A\n".into()));
        assert_eq!(Rule::Token.restoring(b"A\n", b"A B\n"), None);
    }

    #[test]
    fn the_same_number_is_the_same_state() {
        assert!(Rule::Integer.same_state(b"1", b"0x10", b"16\n"));
        assert!(!Rule::Integer.same_state(b"16", b"0x10", b"17\n"));
        assert!(Rule::Exact.same_state(b"1", b"a b", b"a  b\n"));
    }

    #[test]
    fn tokens_are_judged_one_by_one() {
        assert!(Rule::Token.same_state(b"A", b"A B", b"A NO_B"));
        assert!(!Rule::Token.same_state(b"A", b"A B", b"NO_A B"));
    }

    #[test]
    fn masks_are_subsets() {
        assert!(mask_within(b"00000002\n", b"3"));
        assert!(!mask_within(b"4", b"3"));
        assert!(!mask_within(b"10", b"3"));
        assert!(!mask_within(b"x", b"3"));
    }

    #[test]
    fn a_sign_counts() {
        assert!(Rule::Integer.holds(b"-1", b"-0x1"));
        assert!(!Rule::Integer.holds(b"-1", b"1"));
        assert!(!Rule::Integer.holds(b"5", b"+5"), "no kernel writes that");
    }
}
