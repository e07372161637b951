// SPDX-License-Identifier: Apache-2.0
//! A session on a machine: the options that locate it, and serving requests there.

use crate::error::{Error, Kind, Result};
use crate::root::Root;
use crate::session::protocol;
use crate::sys;
use crate::transact::context::{Context, Role};
use crate::transact::revert;
use crate::transact::store::DEFAULT_STATE;
use clap::Args;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options that locate the machine.
#[derive(Args)]
pub(super) struct Machine {
    /// Use DIR as the machine's `/`.
    #[arg(long, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
    /// Keep the journals in DIR, below the root.
    #[arg(long, default_value = DEFAULT_STATE, value_name = "DIR")]
    pub state: String,
}

/// Drops everything inherited from the caller: environment, working directory and umask. The caller
/// must open paths of the command line first.
fn cut_loose() -> Result<()> {
    let names: Vec<_> = std::env::vars_os().map(|(name, _)| name).collect();
    for name in names {
        std::env::remove_var(name);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    std::env::set_current_dir("/").map_err(|error| Error::io("change to directory", "/", &error))
}

pub(super) fn context(role: Role, machine: &Machine) -> Result<Context> {
    let base = std::path::absolute(&machine.root)
        .map_err(|error| Error::io("find", machine.root.display(), &error))?;
    let base = base
        .canonicalize()
        .map_err(|error| Error::io("find", base.display(), &error))?;
    let clean = Path::new(&machine.state)
        .components()
        .all(|part| !matches!(part, std::path::Component::ParentDir));
    if !machine.state.starts_with('/') || !clean {
        return Err(Error::new(
            Kind::BadRequest,
            format!("--state: expected an absolute path, got {:?}", machine.state),
        ));
    }
    cut_loose()?;
    Ok(Context::new(role, Root::new(base), &machine.state))
}

/// Serves requests until the input ends, then ends the session's leases.
pub(super) fn session(mut context: Context, input: &mut impl BufRead) -> Result<ExitCode> {
    let served = protocol::serve(&mut context, input, &mut io::stdout().lock());
    let uninterrupted = sys::Uninterrupted::begin();
    revert::end_session(&mut context)?;
    drop(uninterrupted);
    served.map_err(|error| Error::io("use", "standard input and output", &error))?;
    Ok(ExitCode::SUCCESS)
}
