// SPDX-License-Identifier: Apache-2.0
//! Requests of a head on another machine: private folders for runs, and locks on measuring.

use crate::error::{fields, Result};
use crate::transact::context::Context;
use crate::work::Seat;
use serde::Deserialize;
use serde_json::{json, Value};
use std::path::PathBuf;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderMake {
    in_memory: bool,
}

/// Answers `folder-make`.
pub fn folder_make(context: &mut Context, value: Value) -> Result<Value> {
    let FolderMake { in_memory } = fields(value)?;
    Ok(json!({ "path": context.work.make(in_memory)? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderPlan {
    name: String,
    runs: u32,
}

/// Answers `folder-plan`.
pub fn folder_plan(context: &mut Context, value: Value) -> Result<Value> {
    let FolderPlan { name, runs } = fields(value)?;
    Ok(json!({ "path": context.work.make_for_plan(&name, runs)? }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderRead {
    path: PathBuf,
    offset: u64,
}

/// Answers `folder-read`.
pub fn folder_read(context: &mut Context, value: Value) -> Result<Value> {
    let FolderRead { path, offset } = fields(value)?;
    let (bytes, is_last) = context.work.read(&path, offset)?;
    Ok(json!({ "bytes": bytes, "last": is_last }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FolderRemove {
    path: PathBuf,
}

/// Answers `folder-remove`.
pub fn folder_remove(context: &mut Context, value: Value) -> Result<Value> {
    let FolderRemove { path } = fields(value)?;
    context.work.remove(&path)?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeSeat {
    of: Seat,
}

/// Answers `seat`.
pub fn seat(context: &mut Context, value: Value) -> Result<Value> {
    let TakeSeat { of } = fields(value)?;
    Ok(match context.work.sit(&context.root, of)? {
        None => json!({ "taken": true }),
        Some(holders) => json!({ "taken": false, "holders": holders }),
    })
}
