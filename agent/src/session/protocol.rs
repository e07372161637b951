// SPDX-License-Identifier: Apache-2.0
//! The protocol: line framing, requests, roles and replies.

use crate::bytes::LINE_BYTES;
use crate::error::{Error, Kind, Result};
use crate::session::requests::{self, REQUESTS};
use crate::sys;
use crate::transact::context::{Context, Role, Told};
use serde_json::{json, Map, Value};
use std::io::{self, BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole {
        line: Vec<u8>,
        /// Whether bytes of the next line have already been read.
        more: bool,
    },
    Oversized,
    End,
}

fn read_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut oversized = false;
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let ended = buffer.is_empty();
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let taken = newline.unwrap_or(buffer.len());
        let more = newline.is_some_and(|newline| newline + 1 < buffer.len());
        if oversized || line.len() + taken >= LINE_BYTES {
            oversized = true;
            line = Vec::new();
        } else {
            line.extend_from_slice(&buffer[..taken]);
        }
        input.consume(taken + usize::from(newline.is_some()));
        if newline.is_some() || ended {
            return Ok(match (oversized, ended && line.is_empty()) {
                (true, _) => Line::Oversized,
                (false, true) => Line::End,
                (false, false) => Line::Whole { line, more },
            });
        }
    }
}

/// Answers requests until the input ends.
///
/// # Errors
///
/// Reading the input or writing the output failed; the session is over.
pub fn serve(context: &mut Context, input: &mut impl BufRead, output: &mut impl Write) -> io::Result<()> {
    loop {
        let reply = match read_line(input)? {
            Line::End => return Ok(()),
            Line::Oversized => error_line(&Value::Null, &oversized("a request")),
            Line::Whole { line, more } => {
                if let Told::ByInput { waiting } = &mut context.told {
                    *waiting = more;
                }
                answer(context, &line)
            }
        };
        output.write_all(&reply)?;
        output.flush()?;
    }
}

fn oversized(what: &str) -> Error {
    Error::new(Kind::Oversized, format!("{what} exceeds {LINE_BYTES} bytes"))
        .hint("split the request into smaller ones")
}

/// Returns the reply to one line, with its newline.
pub fn answer(context: &mut Context, line: &[u8]) -> Vec<u8> {
    let (id, request) = parse(line);
    context.request = id.clone();
    let result = request.and_then(|(name, fields)| {
        catch_unwind(AssertUnwindSafe(|| dispatch(context, &name, fields)))
            .unwrap_or_else(|_| Err(Error::new(Kind::Io, format!("`{name}` crashed inside the agent"))))
    });
    let reply = match result {
        Ok(ok) => to_line(&json!({"id": id, "ok": ok})),
        Err(error) => error_line(&id, &error),
    };
    if reply.len() > LINE_BYTES {
        return error_line(&id, &oversized("the reply"));
    }
    reply
}

fn error_line(id: &Value, error: &Error) -> Vec<u8> {
    to_line(&json!({"id": id, "error": error.to_json()}))
}

fn to_line(reply: &Value) -> Vec<u8> {
    let mut line = reply.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A request's name and fields.
type Call = (String, Map<String, Value>);

/// Splits a line into the request's ID and its call.
fn parse(line: &[u8]) -> (Value, Result<Call>) {
    let malformed = |why: String| Err(Error::new(Kind::Malformed, why));
    let mut fields = match serde_json::from_slice::<Value>(line) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return (Value::Null, malformed("expected a JSON object".to_owned())),
        Err(error) => return (Value::Null, malformed(format!("not JSON: {error}"))),
    };
    let id = match fields.shift_remove("id") {
        Some(id) if id.is_i64() || id.is_u64() => id,
        _ => return (Value::Null, malformed("`id`: expected an integer".to_owned())),
    };
    match fields.shift_remove("do") {
        Some(Value::String(name)) => (id, Ok((name, fields))),
        _ => (id, malformed("`do`: expected the name of a request".to_owned())),
    }
}

/// Carries out a request if the role may make it.
///
/// # Errors
///
/// Any kind of the protocol.
pub fn dispatch(context: &mut Context, name: &str, fields: Map<String, Value>) -> Result<Value> {
    let Some(request) = REQUESTS.iter().find(|request| request.name == name) else {
        let known = requests::capabilities(context.role).join(", ");
        return Err(
            Error::new(Kind::UnknownRequest, format!("unknown request {name:?}"))
                .hint(format!("use one of {known}")),
        );
    };
    if !request.roles.contains(&context.role) {
        let message = format!(
            "a session of role {} may not request `{name}`",
            json!(context.role)
        );
        return Err(Error::new(Kind::Forbidden, message).hint("start a session with the other role"));
    }
    // A root session finishes what it has begun, even after Ctrl-C or a closed terminal.
    let is_finished = context.role == Role::Root && !requests::ENDING_AT_ONCE.contains(&name);
    let _uninterrupted = is_finished.then(sys::Uninterrupted::begin);
    (request.handle)(context, Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    fn replies(role: Role, input: &[u8]) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let mut context = Context::new(role, Root::new(folder.path()), "/var/lib/ktrial");
        let mut output = Vec::new();
        serve(&mut context, &mut io::BufReader::new(input), &mut output).unwrap();
        output
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    fn kinds(role: Role, input: &[u8]) -> Vec<String> {
        replies(role, input)
            .iter()
            .map(|reply| reply["error"]["kind"].as_str().unwrap_or("ok").to_owned())
            .collect()
    }

    #[test]
    fn bad_lines_are_answered_by_kind() {
        let cases: [(&str, &str); 9] = [
            ("x", "malformed"),
            ("", "malformed"),
            ("[]", "malformed"),
            (r#"{"do":"hello"}"#, "malformed"),
            (r#"{"id":1}"#, "malformed"),
            (r#"{"id":1,"do":"dance"}"#, "unknown-request"),
            (r#"{"id":1,"do":"read"}"#, "bad-request"),
            (r#"{"id":1,"do":"read","paths":[],"x":1}"#, "bad-request"),
            (r#"{"id":1,"do":"hello","protocol":2,"head":"9"}"#, "version"),
        ];
        for (line, kind) in cases {
            assert_eq!(
                kinds(Role::Root, format!("{line}\n").as_bytes()),
                [kind],
                "{line}"
            );
        }
    }

    #[test]
    fn an_oversized_line_is_skipped_up_to_its_newline() {
        let mut input = vec![b'x'; LINE_BYTES * 2];
        input.extend_from_slice(b"\n{\"id\":7,\"do\":\"read\",\"paths\":[]}");
        let replies = replies(Role::User, &input);
        assert_eq!(replies[0]["error"]["kind"], "oversized");
        assert_eq!(replies[1]["id"], 7);
        assert!(replies[1]["ok"].is_object());
    }

    #[test]
    fn deep_nesting_is_malformed() {
        let deep = format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(kinds(Role::User, deep.as_bytes()), ["malformed"]);
    }

    #[test]
    fn a_user_session_writes_nothing() {
        for name in ["apply", "revert", "recover", "confirm", "recovery"] {
            let line = format!("{{\"id\":1,\"do\":\"{name}\"}}\n");
            assert_eq!(kinds(Role::User, line.as_bytes()), ["forbidden"], "{name}");
        }
    }
}
