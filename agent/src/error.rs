// SPDX-License-Identifier: Apache-2.0
//! Errors that a request is answered with.

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Map, Value};
use std::fmt;

/// The protocol's error kinds; their wire names are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Not JSON, not an object, or no `id`/`do`.
    Malformed,
    /// A line longer than the limit.
    Oversized,
    /// No such request.
    UnknownRequest,
    /// A field is missing, unknown or of the wrong type.
    BadRequest,
    /// The other side speaks another protocol version.
    Version,
    /// A path or program outside the allow-list, or a request that this role may not make.
    Forbidden,
    /// Needs root.
    Privilege,
    /// Another transaction holds the machine's lock.
    Busy,
    /// The machine is not in the state that the request expects.
    Conflict,
    /// The journal cannot be written; nothing was changed.
    Journal,
    /// The journal is damaged.
    Corrupt,
    /// No such transaction.
    NotFound,
    /// Any other error of the system.
    Io,
}

impl Kind {
    /// Returns the exit status of a command that failed in this way.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Self::Malformed | Self::Oversized | Self::UnknownRequest | Self::BadRequest | Self::NotFound => 2,
            Self::Forbidden => 4,
            Self::Privilege => 5,
            _ => 1,
        }
    }
}

/// A failed request: its kind, what happened, and the next step.
#[derive(Debug, Clone)]
pub struct Error {
    /// Kind of error.
    pub kind: Kind,
    /// What happened, with the file and value.
    pub message: String,
    /// The next step, if there is one.
    pub hint: Option<String>,
    /// Machine-readable details, such as the conflicting steps of a plan.
    pub details: Option<Box<Value>>,
}

/// The result of every request.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error without a hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            details: None,
        }
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds machine-readable details.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Reports a failed operation on a file: "cannot WHAT PATH: ERROR".
    pub fn io(what: &str, path: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(Kind::Io, format!("cannot {what} {path}: {error}"))
    }

    /// Returns the error as the protocol's JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("kind".into(), json!(self.kind));
        object.insert("message".into(), json!(self.message));
        if let Some(hint) = &self.hint {
            object.insert("hint".into(), json!(hint));
        }
        if let Some(details) = &self.details {
            object.insert("details".into(), (**details).clone());
        }
        Value::Object(object)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(formatter, "\n  {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Parses a request's fields.
///
/// # Errors
///
/// `bad-request`: they are not what the request needs.
pub fn fields<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| Error::new(Kind::BadRequest, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_spelled_as_in_the_format() {
        let error = Error::new(Kind::UnknownRequest, "no such request").hint("see hello");
        assert_eq!(
            error.to_json(),
            json!({"kind": "unknown-request", "message": "no such request", "hint": "see hello"})
        );
    }
}
