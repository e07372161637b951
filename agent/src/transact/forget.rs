// SPDX-License-Identifier: Apache-2.0
//! Removes the state folder when nothing in it is needed any more.

use crate::error::{Error, Kind, Result};
use crate::transact::context::Context;
use crate::unattended;
use std::fs;

/// Removes the state folder and returns its path, or nothing if there was none. Refuses while a
/// transaction is in force or unfinished, because its old values would be lost.
pub fn forget(context: &Context) -> Result<Vec<String>> {
    context.need_root()?;
    if !context.store.is_there()? {
        return Ok(Vec::new());
    }
    unattended::refuse_running(context)?;
    let lock = context.store.lock()?;
    let needed: Vec<String> = context
        .store
        .transactions()?
        .iter()
        .filter(|transaction| transaction.is_open())
        .map(|transaction| transaction.id.to_string())
        .collect();
    if !needed.is_empty() {
        let message = format!(
            "cannot remove the journals: still in force: {}",
            needed.join(", ")
        );
        return Err(Error::new(Kind::Conflict, message).hint("revert them first"));
    }
    fs::remove_dir_all(context.root.path(&context.state))
        .map_err(|error| Error::io("remove", &context.state, &error))?;
    drop(lock);
    Ok(vec![context.state.clone()])
}
