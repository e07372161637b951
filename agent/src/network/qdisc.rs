// SPDX-License-Identifier: Apache-2.0
//! Queue disciplines: encodes netem's options, and decodes the options that the kernel reports.

use super::netlink::{attribute, attributes, word_at, RawQdisc};
use super::Network;
use crate::bytes::hexadecimal;
use serde_json::{json, Map, Value};

/// The queue discipline that adds delay, loss and a rate limit.
pub const NETEM: &str = "netem";

const NETEM_RATE: u16 = 6;
const NETEM_RATE_64: u16 = 8;
const NETEM_LATENCY_64: u16 = 10;
/// Length of the fixed part before netem's attributes: latency, limit, loss, gap, duplicate,
/// jitter.
const NETEM_FIXED_BYTES: usize = 24;
/// Nanoseconds per tick, the unit of the fixed part's latency.
const TICK_NS: u64 = 64;
const MILLION: u64 = 1_000_000;

/// Names of the numbered options, for the kinds used with congestion control.
const FQ: &[&str] = &[
    "limit_packets",
    "flow_limit_packets",
    "quantum_bytes",
    "initial_quantum_bytes",
    "pacing",
    "default_rate_bytes_per_s",
    "most_rate_bytes_per_s",
    "buckets_log",
    "refill_delay_us",
    "orphan_mask",
    "low_rate_threshold_bytes_per_s",
    "ce_threshold_us",
    "timer_slack_ns",
    "horizon_us",
    "horizon_drop",
];
const FQ_CODEL: &[&str] = &[
    "target_us",
    "limit_packets",
    "interval_us",
    "ecn",
    "flows",
    "quantum_bytes",
    "ce_threshold_us",
    "drop_batch_packets",
    "memory_limit_bytes",
];

/// Encodes netem's options for one direction of the link.
pub fn netem_options(network: &Network) -> Vec<u8> {
    // Half of the round trip; the other direction adds the rest.
    let latency_ns = u64::from(network.delay_us) * 1000 / 2;
    let ticks = u32::try_from(latency_ns / TICK_NS).unwrap_or(u32::MAX);
    let loss = u64::from(network.loss_ppm) * u64::from(u32::MAX) / MILLION;
    let loss = u32::try_from(loss).unwrap_or(u32::MAX);
    let fixed = [ticks, network.limit_packets, loss, 0, 0, 0];
    let mut options: Vec<u8> = fixed.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // Kernels before 4.16 know only ticks.
    options.extend(attribute(NETEM_LATENCY_64, &latency_ns.to_ne_bytes()));
    if network.rate_bytes_per_s > 0 {
        let small = u32::try_from(network.rate_bytes_per_s);
        if small.is_err() {
            let rate = network.rate_bytes_per_s.to_ne_bytes();
            options.extend(attribute(NETEM_RATE_64, &rate));
        }
        let rate = [small.unwrap_or(u32::MAX), 0, 0, 0];
        let rate: Vec<u8> = rate.iter().flat_map(|word| word.to_ne_bytes()).collect();
        options.extend(attribute(NETEM_RATE, &rate));
    }
    options
}

/// Describes a queue discipline: its kind, and its options by name.
pub fn described(raw: &RawQdisc) -> Value {
    let options = match raw.kind.as_str() {
        NETEM => netem_described(&raw.options),
        "fq" => named(&raw.options, FQ),
        "fq_codel" => named(&raw.options, FQ_CODEL),
        "pfifo" => json!({"limit_packets": word_at(&raw.options, 0)}),
        "bfifo" => json!({"limit_bytes": word_at(&raw.options, 0)}),
        _ if raw.options.is_empty() => json!({}),
        _ => json!({ "hexadecimal": hexadecimal(&raw.options) }),
    };
    json!({"kind": raw.kind, "options": options})
}

fn netem_described(options: &[u8]) -> Value {
    let parts = attributes(options.get(NETEM_FIXED_BYTES..).unwrap_or_default());
    let long = |wanted: u16| {
        let (_, payload) = parts.iter().find(|(kind, _)| *kind == wanted)?;
        Some(u64::from_ne_bytes((*payload).try_into().ok()?))
    };
    let ticks_ns = word_at(options, 0).map(|ticks| u64::from(ticks) * TICK_NS);
    let rate = parts.iter().find(|(kind, _)| *kind == NETEM_RATE);
    let short_rate = rate.and_then(|(_, payload)| word_at(payload, 0)).map(u64::from);
    let loss = word_at(options, 8).map(|loss| (u64::from(loss) * MILLION).div_ceil(u64::from(u32::MAX)));
    json!({
        "delay_ns": long(NETEM_LATENCY_64).or(ticks_ns),
        "limit_packets": word_at(options, 4),
        "loss_ppm": loss,
        "rate_bytes_per_s": long(NETEM_RATE_64).or(short_rate),
    })
}

/// Names the numbered options of one word each. An unknown option, or one of another size, is
/// listed by its number.
fn named(options: &[u8], names: &[&str]) -> Value {
    let mut found = Map::new();
    for (kind, payload) in attributes(options) {
        let name = usize::from(kind).checked_sub(1).and_then(|at| names.get(at));
        let word = word_at(payload, 0).filter(|_| payload.len() == 4);
        match (name, word) {
            (Some(name), Some(word)) => found.insert((*name).to_owned(), json!(word)),
            _ => found.insert(format!("attribute_{kind}"), json!(hexadecimal(payload))),
        };
    }
    Value::Object(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(network: &Network) -> Value {
        described(&RawQdisc {
            kind: NETEM.to_owned(),
            options: netem_options(network),
        })
    }

    #[test]
    fn netem_is_read_back_as_it_was_asked_for() {
        let network = Network {
            delay_us: 20_001,
            loss_ppm: 12_345,
            rate_bytes_per_s: 1_250_000,
            limit_packets: 77,
            ..Network::default()
        };
        let options = json!({"delay_ns": 10_000_500, "limit_packets": 77, "loss_ppm": 12_345, "rate_bytes_per_s": 1_250_000});
        assert_eq!(told(&network), json!({"kind": "netem", "options": options}));
    }

    #[test]
    fn a_rate_beyond_32_bits_is_kept() {
        let fast = Network {
            rate_bytes_per_s: 12_500_000_000,
            ..Network::default()
        };
        assert_eq!(
            told(&fast)["options"]["rate_bytes_per_s"],
            json!(12_500_000_000_u64)
        );
        let free = Network::default();
        assert_eq!(told(&free)["options"]["rate_bytes_per_s"], Value::Null);
        assert_eq!(told(&free)["options"]["loss_ppm"], json!(0));
    }

    #[test]
    fn options_without_a_name_are_kept_as_numbers() {
        let raw = RawQdisc {
            kind: "fq".to_owned(),
            options: [
                attribute(1, &10_000_u32.to_ne_bytes()),
                attribute(99, &[1, 2, 3, 4]),
                attribute(3, &[255; 8]),
            ]
            .concat(),
        };
        let options =
            json!({"limit_packets": 10_000, "attribute_99": "01020304", "attribute_3": "ffffffffffffffff"});
        assert_eq!(described(&raw), json!({"kind": "fq", "options": options}));
        let other = RawQdisc {
            kind: "cake".to_owned(),
            options: vec![10, 255],
        };
        assert_eq!(described(&other)["options"]["hexadecimal"], "0aff");
    }
}
