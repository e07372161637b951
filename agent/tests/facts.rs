// SPDX-License-Identifier: Apache-2.0
//! Facts of the machine that the test runs on, against the list of facts in the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use ktrial_agent::facts::{collect, Fact};
use ktrial_agent::root::Root;
use serde_json::Value;

const CATALOG: &str = include_str!("../../src/ktrial/catalog/facts.toml");

/// A fact of the catalog: its type and what it is, which for records names the fields.
struct Entry {
    kind: String,
    what: String,
}

/// The facts that the catalog lists, without those of a device, which the head derives.
fn catalog() -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    for section in CATALOG.split("[[fact]]").skip(1) {
        let field = |key: &str| -> String {
            let line = section
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.unwrap_or_else(|| panic!("a fact without {key}: {section}"))
                .trim_matches('"')
                .to_owned()
        };
        if !section.contains("\nof = ") {
            entries.insert(
                field("name"),
                Entry {
                    kind: field("type"),
                    what: field("what"),
                },
            );
        }
    }
    assert!(entries.len() > 60, "the catalog of facts was not understood");
    entries
}

fn fits(entry: &Entry, value: &Value) -> bool {
    let items = value.as_array();
    match entry.kind.as_str() {
        "text" => value.as_str().is_some_and(|text| !text.is_empty()),
        "int" | "bytes" => value.is_u64(),
        "bool" => value.is_boolean(),
        "seconds" => value.is_f64(),
        "cpus" => items.is_some_and(|items| items.iter().all(Value::is_u64)),
        "texts" => items.is_some_and(|items| items.iter().all(Value::is_string)),
        "table" => value
            .as_object()
            .is_some_and(|table| table.values().all(Value::is_string)),
        "records" => items.is_some_and(|items| items.iter().all(|item| has_fields(entry, item))),
        other => panic!("the catalog has a type {other} that no fact is checked against"),
    }
}

/// Whether a record has just the fields that the catalog's line lists behind the colon.
fn has_fields(entry: &Entry, record: &Value) -> bool {
    let (_, listed) = entry.what.split_once(": ").unwrap();
    let listed: BTreeSet<&str> = listed.split(", ").collect();
    let found: BTreeSet<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
    listed == found
}

#[test]
fn the_facts_are_those_of_the_catalog_and_fit_their_types() {
    let entries = catalog();
    let facts = collect(&Root::new("/"), &[]);
    let named: Vec<&str> = facts.keys().copied().collect();
    let listed: Vec<&str> = entries.keys().map(String::as_str).collect();
    assert_eq!(named, listed);
    for (name, fact) in &facts {
        match fact {
            Fact::Value(value) => assert!(fits(&entries[*name], value), "{name}: {value}"),
            Fact::Absent(why) | Fact::Unknown(why) => assert!(!why.is_empty(), "{name} has no reason"),
        }
    }
}

#[test]
fn the_checks_of_types_convict() {
    let entry = |kind: &str| Entry {
        kind: kind.to_owned(),
        what: "Things: a, b".to_owned(),
    };
    assert!(!fits(&entry("text"), &Value::from("")));
    assert!(!fits(&entry("int"), &Value::from(-1)));
    assert!(!fits(&entry("records"), &serde_json::json!([{"a": 1}])));
    assert!(fits(&entry("records"), &serde_json::json!([{"a": 1, "b": null}])));
}

#[test]
fn only_takes_whole_parts_of_names() {
    let names = |only: &[&str]| -> Vec<&str> {
        let only: Vec<String> = only.iter().map(|prefix| (*prefix).to_owned()).collect();
        collect(&Root::new("/"), &only).into_keys().collect()
    };
    assert_eq!(names(&["kernel.config"]), ["kernel.config"]);
    assert_eq!(names(&["cpufreq.", "boot.id"]).len(), 6);
    assert!(names(&["cpu"]).iter().all(|name| name.starts_with("cpu.")));
    assert!(names(&["nothing"]).is_empty());
}

/// Any Linux shows these to anybody.
#[test]
fn this_machine_shows_what_every_linux_shows() {
    let facts = collect(&Root::new("/"), &[]);
    let value = |name: &str| match &facts[name] {
        Fact::Value(value) => value.clone(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(
        value("kernel.release"),
        std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap()
            .trim()
    );
    assert!(value("memory.total").as_u64().unwrap() >= value("memory.available").as_u64().unwrap());
    assert!(value("cpu.threads").as_u64().unwrap() >= value("cpu.cores").as_u64().unwrap());
    assert!(value("boot.uptime").as_f64().unwrap() > 0.0);
    let file_systems = value("filesystems");
    let root = file_systems
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["mount"] == "/")
        .unwrap();
    assert!(root["size_bytes"].as_u64().unwrap() >= root["used_bytes"].as_u64().unwrap());
}

/// The wanted bound is 60 ms for a release build on a quiet machine; a test build on a busy one is given more.
#[test]
fn collecting_is_fast() {
    let times = (0..5).map(|_| {
        let begin = Instant::now();
        assert!(!collect(&Root::new("/"), &[]).is_empty());
        begin.elapsed()
    });
    let best = times.min().unwrap();
    assert!(best.as_millis() < 400, "{best:?}");
}
