// SPDX-License-Identifier: Apache-2.0
//! `power`: charge and use of batteries, and whether the machine is on mains power.

use super::feed::{Cell, Column, Feed, Found, Parser, Progress};
use super::names::clean;
use super::text::Number;
use crate::facts::power::{supplies, SUPPLIES};
use crate::root::Root;

/// One if a battery is discharging, otherwise zero.
struct Discharging;

pub fn open(root: &Root) -> Found {
    let mut found = Found::default();
    for (name, kind) in supplies(root).unwrap_or_default() {
        let of = |what: &str| format!("power.{}.{what}", clean(&name));
        let path = |file: &str| format!("{SUPPLIES}/{name}/{file}");
        if kind != "Battery" {
            let sane = Number {
                scale: 1,
                sane: 0..=2,
            };
            let columns = vec![Column::level(of("online"), "count", 1)];
            found.add(Feed::open(root, &path("online"), columns, sane));
            continue;
        }
        let percent = Number {
            scale: 1,
            sane: 0..=100,
        };
        let charge = vec![Column::level(of("charge"), "ratio", 100)];
        found.add(Feed::open(root, &path("capacity"), charge, percent));
        let state = vec![Column::level(of("discharging"), "count", 1)];
        found.add(Feed::open(root, &path("status"), state, Discharging));
        let positive = Number {
            scale: 1,
            sane: 0..=Cell::MAX,
        };
        let power = vec![Column::level(of("power"), "W", 1_000_000)];
        // Batteries that report current and voltage instead don't have this file.
        if let Ok(feed) = Feed::open(root, &path("power_now"), power, positive) {
            found.feeds.push(feed);
        }
    }
    if found.feeds.is_empty() && found.missing.is_empty() {
        return Found::none(format!("no power supply in {SUPPLIES}"));
    }
    found
}

impl Parser for Discharging {
    fn parse(&mut self, text: &[u8], row: &mut [Cell]) -> Progress {
        match text.trim_ascii() {
            b"Discharging" => row[0] = 1,
            b"Charging" | b"Full" | b"Not charging" => row[0] = 0,
            b"Unknown" => {}
            _ => return Progress::Garbage,
        }
        Progress::Done
    }
}
