// SPDX-License-Identifier: Apache-2.0
//! Requests about boots that a transaction has prepared.

use super::requests::{fields, Nothing};
use crate::boots;
use crate::error::Result;
use crate::transact::context::Context;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arm {
    entry: String,
    #[serde(default)]
    then: Option<String>,
}

pub fn arm(context: &mut Context, value: Value) -> Result<Value> {
    let Arm { entry, then } = fields(value)?;
    boots::arm(context, &entry, then.as_deref())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    #[serde(default)]
    path: Option<String>,
}

pub fn status(context: &mut Context, value: Value) -> Result<Value> {
    let Status { path } = fields(value)?;
    boots::status(context, path.as_deref())
}

pub fn reboot(context: &mut Context, value: Value) -> Result<Value> {
    let Nothing {} = fields(value)?;
    boots::reboot(context)
}
