// SPDX-License-Identifier: Apache-2.0
//! The running kernel's configuration: its source, hash and symbols.

use crate::bytes::hexadecimal;
use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use super::probe::{list, text, unknown, Probe};
use crate::root::Root;

/// No configuration is larger than this.
const LIMIT_BYTES: u64 = 8 << 20;

/// A kernel configuration.
#[derive(Debug)]
pub struct KernelConfig {
    /// The file it was read from.
    pub source: String,
    /// SHA-256 of its uncompressed text.
    pub hash: String,
    /// Symbols without `CONFIG_`; "is not set" is `n`; strings without quotes.
    pub symbols: BTreeMap<String, String>,
}

impl KernelConfig {
    /// Returns the value of a symbol; a missing symbol is `n`, as in the kernel's own makefiles.
    pub fn get(&self, symbol: &str) -> &str {
        self.symbols.get(symbol).map_or("n", String::as_str)
    }

    /// Whether a symbol is built in.
    pub fn is_on(&self, symbol: &str) -> bool {
        self.get(symbol) == "y"
    }
}

/// Finds the configuration of the running kernel. The first place that has one wins.
pub fn find(root: &Root) -> Probe<KernelConfig> {
    let mut refusals = Vec::new();
    let mut sources = vec!["/proc/config.gz".to_owned()];
    match text(root, "/proc/sys/kernel/osrelease") {
        Ok(release) => sources.extend(places(root, &release)),
        Err(miss) => refusals.push(miss.why().to_owned()),
    }
    for source in sources {
        match load(root, &source) {
            Ok(config) => return Ok(config),
            Err(why) => refusals.push(why),
        }
    }
    unknown(format!(
        "no configuration of the running kernel: {}",
        refusals.join("; ")
    ))
}

fn places(root: &Root, release: &str) -> Vec<String> {
    let mut places = vec![
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/.config"),
        format!("/usr/lib/modules/{release}/config"),
        format!("/usr/lib/kernel/config-{release}"),
    ];
    let prefix = format!("config-{release}");
    let names = list(root, "/usr/lib/ostree-boot").unwrap_or_default();
    let ours = names.into_iter().filter(|name| name.starts_with(&prefix));
    places.extend(ours.map(|name| format!("/usr/lib/ostree-boot/{name}")));
    places
}

fn load(root: &Root, source: &str) -> Result<KernelConfig, String> {
    let bytes = root.read_bytes(source).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("no {source}"),
        _ => format!("{source}: {error}"),
    })?;
    let unpacked = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut unpacked = Vec::new();
        let read = GzDecoder::new(bytes.as_slice())
            .take(LIMIT_BYTES)
            .read_to_end(&mut unpacked);
        read.map_err(|error| format!("{source} is damaged: {error}"))?;
        unpacked
    } else {
        bytes
    };
    let symbols = parse(&String::from_utf8_lossy(&unpacked));
    if symbols.is_empty() {
        return Err(format!("{source} is not a kernel configuration"));
    }
    let hash = hexadecimal(&Sha256::digest(&unpacked));
    Ok(KernelConfig {
        source: source.to_owned(),
        hash,
        symbols,
    })
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let mut symbols = BTreeMap::new();
    for line in text.lines() {
        let off = line
            .strip_prefix("# CONFIG_")
            .and_then(|rest| rest.strip_suffix(" is not set"));
        if let Some(symbol) = off {
            symbols.insert(symbol.to_owned(), "n".to_owned());
        } else if let Some((symbol, value)) =
            line.strip_prefix("CONFIG_").and_then(|line| line.split_once('='))
        {
            let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
            symbols.insert(symbol.to_owned(), inner.unwrap_or(value).to_owned());
        }
    }
    symbols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_a_configuration() {
        let symbols = parse("# Automatically\nCONFIG_HZ=250\n# CONFIG_PREEMPT is not set\nCONFIG_LOCALVERSION=\"-x\"\nCONFIG_A=m\n");
        let expected = [
            ("A", "m"),
            ("HZ", "250"),
            ("LOCALVERSION", "-x"),
            ("PREEMPT", "n"),
        ];
        let expected = expected.map(|(symbol, value)| (symbol.to_owned(), value.to_owned()));
        assert_eq!(symbols, BTreeMap::from(expected));
    }
}
