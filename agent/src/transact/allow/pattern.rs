// SPDX-License-Identifier: Apache-2.0
//! Path patterns: a file, or with a final `/` everything below it. `*` stands for anything within
//! one component, the component `**` for one or more components.

use std::str::Split;

/// Whether one of the patterns covers a path.
pub fn any<P: AsRef<str>>(patterns: &[P], path: &str) -> bool {
    patterns.iter().any(|pattern| covers(pattern.as_ref(), path))
}

/// Whether a pattern covers a path.
pub fn covers(pattern: &str, path: &str) -> bool {
    let below = pattern.ends_with('/');
    let pattern = pattern.trim_end_matches('/');
    // Of the hundreds of patterns that a path is compared with, nearly all begin with something else.
    let literal = pattern.find('*').unwrap_or(pattern.len());
    path.as_bytes().starts_with(&pattern.as_bytes()[..literal])
        && rest_covers(pattern.split('/'), path.split('/'), below)
}

fn rest_covers(mut wanted: Split<char>, mut found: Split<char>, below: bool) -> bool {
    loop {
        match wanted.next() {
            None => return found.next().is_some() == below,
            Some("**") => {
                while found.next().is_some() {
                    if rest_covers(wanted.clone(), found.clone(), below) {
                        return true;
                    }
                }
                return false;
            }
            Some(wanted) if found.next().is_some_and(|found| fits(wanted, found)) => {}
            Some(_) => return false,
        }
    }
}

/// Returns how many final components stay the same if the first `*` is a link: those after it.
pub fn after_first_star(pattern: &str) -> usize {
    let from_star = pattern
        .split('/')
        .skip_while(|component| !component.contains('*'));
    match from_star.count() {
        found if found > 1 && !pattern.ends_with('/') => found - 1,
        _ => 1,
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut rest) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces: Vec<&str> = tail.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
