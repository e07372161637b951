// SPDX-License-Identifier: Apache-2.0
//! The examples of `tests/golden/formats/`, which the tests of the other half read too.

use ktrial_agent::error::Kind;
use ktrial_agent::root::Root;
use ktrial_agent::session::protocol;
use ktrial_agent::transact::context::{Context, Role};
use ktrial_agent::transact::journal;
use ktrial_agent::transact::plan::Plan;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/golden/formats")
        .join(name)
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(golden(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    assert!(!found.is_empty(), "{folder}");
    found
}

/// What differs from run to run, or grows, made the same.
fn settled(mut value: Value) -> Value {
    let is_unknown = value["error"]["kind"] == "unknown-request";
    if let Some(error) = value
        .get_mut("error")
        .and_then(Value::as_object_mut)
        .filter(|_| is_unknown)
    {
        error.remove("hint");
    }
    settle(&mut value);
    value
}

fn settle(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("capabilities");
            for (name, field) in fields.iter_mut() {
                if ["pid", "uid", "began_unix_ms"].contains(&name.as_str()) {
                    *field = json!(0);
                }
                if name == "architecture" {
                    *field = json!("x86_64");
                }
                settle(field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        _ => {}
    }
}

#[test]
fn a_session_is_answered_as_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let tree: BTreeMap<String, String> =
        serde_json::from_slice(&fs::read(golden("session.tree.json")).unwrap()).unwrap();
    for (path, content) in &tree {
        let file = folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    let mut context = Context::new(Role::Root, Root::new(folder.path()), "/var/lib/ktrial");
    let requests = fs::read(golden("session.requests.jsonl")).unwrap();
    let mut output = Vec::new();
    protocol::serve(&mut context, &mut requests.as_slice(), &mut output).unwrap();
    let replies = String::from_utf8(output).unwrap();
    let expected = fs::read_to_string(golden("session.replies.jsonl")).unwrap();
    assert_eq!(replies.lines().count(), expected.lines().count());
    for (reply, expected) in replies.lines().zip(expected.lines()) {
        let reply = settled(serde_json::from_str(reply).unwrap());
        assert_eq!(reply, serde_json::from_str::<Value>(expected).unwrap());
    }
}

#[test]
fn plans_are_read_and_written_alike() {
    for path in files("plans", "json") {
        let plan = Plan::from_text(&fs::read(&path).unwrap()).unwrap();
        let again = Plan::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
        assert_eq!(plan, again, "{}", path.display());
    }
    for path in files("bad-plans", "json") {
        let error = Plan::from_text(&fs::read(&path).unwrap()).unwrap_err();
        assert_eq!(error.kind, Kind::BadRequest, "{}", path.display());
    }
}

#[test]
fn journals_are_read_as_far_as_they_can_be_trusted() {
    for path in files("journals", "journal") {
        let contents = journal::parse(&fs::read(&path).unwrap());
        let expected: Value =
            serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        let names: Vec<Value> = contents
            .entries
            .iter()
            .map(|entry| serde_json::to_value(entry).unwrap()["entry"].clone())
            .collect();
        assert_eq!(json!(names), expected["entries"], "{}", path.display());
        let lines: Vec<usize> = contents.damage.iter().map(|damage| damage.line).collect();
        assert_eq!(json!(lines), expected["damaged_lines"], "{}", path.display());
    }
}

#[test]
fn what_is_written_is_the_line_of_the_example() {
    let text = fs::read_to_string(golden("journals/reverted.journal")).unwrap();
    let contents = journal::parse(text.as_bytes());
    for (entry, line) in contents.entries.iter().zip(text.split_inclusive('\n')) {
        assert_eq!(String::from_utf8(journal::line(entry).unwrap()).unwrap(), line);
    }
}
