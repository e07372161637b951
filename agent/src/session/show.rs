// SPDX-License-Identifier: Apache-2.0
//! Replies as text for a person.

use serde_json::Value;
use std::fmt::Write as _;

/// Formats the reply to a request that a person made.
#[must_use]
pub fn reply(name: &str, reply: &Value) -> String {
    let mut text = String::new();
    match name {
        "apply" => transaction(&mut text, reply),
        "confirm" => line(
            &mut text,
            &format!("transaction {} confirmed", reply["transaction"]),
        ),
        "recovery" => list(&mut text, &reply["files"], |text, file| line(text, &word(file))),
        _ => {
            list(&mut text, &reply["traces"], |text, name| {
                line(
                    text,
                    &format!("ended a trace left by an agent that is gone: {}", word(name)),
                );
            });
            list(&mut text, &reply["transactions"], transaction);
            list(&mut text, &reply["damaged"], |text, damage| {
                line(
                    text,
                    &format!("damaged: {}: {}", word(&damage["file"]), word(&damage["message"])),
                );
            });
            list(&mut text, &reply["skipped"], |text, skipped| {
                line(
                    text,
                    &format!(
                        "skipped: {}: {}",
                        word(&skipped["file"]),
                        word(&skipped["message"])
                    ),
                );
            });
        }
    }
    if text.is_empty() {
        line(&mut text, "nothing to do: no transactions");
    }
    text
}

fn list(text: &mut String, values: &Value, mut each: impl FnMut(&mut String, &Value)) {
    for value in values.as_array().into_iter().flatten() {
        each(text, value);
    }
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _: std::fmt::Result = writeln!(text, "{content}");
}

fn transaction(text: &mut String, value: &Value) {
    let mut head = format!("transaction {}", value["transaction"]);
    for part in [&value["title"], &value["state"], &value["lease"]["kind"]] {
        match word(part).as_str() {
            "" | "keep" => {}
            part => head = format!("{head}  {part}"),
        }
    }
    line(text, &head);
    if let Some(why) = value["unfinished"].as_str() {
        line(
            text,
            &format!("  transaction {} is unfinished: {why}", value["transaction"]),
        );
    }
    list(text, &value["left_alone"], |text, path| {
        let id = &value["transaction"];
        let hint = format!("`ktrial revert --only {id} --force` restores it");
        line(
            text,
            &format!("  {}: changed by others, not restored ({hint})", word(path)),
        );
    });
    list(text, &value["steps"], step);
}

fn step(text: &mut String, value: &Value) {
    let outcome = word(&value["outcome"]);
    let mut shown = format!("  {}", word(&value["path"]));
    if !outcome.is_empty() {
        shown = format!("{shown}: {outcome}");
    }
    if value.get("new").is_some() {
        shown = format!("{shown}: {} -> {}", word(&value["old"]), word(&value["new"]));
    }
    for key in ["value", "now"] {
        match word(&value[key]).as_str() {
            "" => {}
            content => shown = format!("{shown}  {content}"),
        }
    }
    match word(&value["message"]).as_str() {
        "" => {}
        message => shown = format!("{shown}  ({message})"),
    }
    line(text, &shown);
}

/// Returns a value's first line, shortened; bytes that are not text become "(bytes)".
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            let text = text.trim();
            let first = text.lines().next().unwrap_or_default();
            let short: String = first.chars().take(100).collect();
            if short.len() < text.len() {
                format!("{short} …")
            } else {
                short
            }
        }
        Value::Object(_) => "(bytes)".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_transaction_is_a_heading_and_a_line_per_step() {
        let shown = reply(
            "apply",
            &json!({"transaction": 3, "state": "applied", "steps": [
            {"step": 0, "path": "/proc/sys/vm/swappiness", "outcome": "accepted", "value": "10\n", "message": ""}]}),
        );
        assert_eq!(
            shown,
            "transaction 3  applied\n  /proc/sys/vm/swappiness: accepted  10\n"
        );
        let left = json!({"transaction": 3, "state": "reverted", "left_alone": ["/proc/sys/vm/swappiness"], "steps": []});
        assert_eq!(
            reply("status", &json!({"transactions": [left]})),
            "transaction 3  reverted\n  /proc/sys/vm/swappiness: changed by others, not restored \
             (`ktrial revert --only 3 --force` restores it)\n"
        );
        assert_eq!(
            reply("status", &json!({"transactions": [], "damaged": []})),
            "nothing to do: no transactions\n"
        );
    }
}
