// SPDX-License-Identifier: Apache-2.0
//! Gates and limits as data of a plan: which readings void a run, and which end the plan.
//!
//! The head judges the same readings again when it fetches the log, and its judgement counts. Here
//! they only decide whether a run is worth making.

use serde::Deserialize;
use serde_json::Value;

/// A gate that can void a run before it begins.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Name of the gate.
    #[serde(rename = "gate")]
    pub name: String,
    /// Where its reading comes from.
    pub reading: Source,
    /// How it compares two readings.
    pub rule: Rule,
    /// Void above this distance or ratio; unused by `same`.
    #[serde(default)]
    pub refuse: f64,
    /// The reading before the trial's first run [default: the first one of this plan].
    #[serde(default)]
    pub reference: Option<Reading>,
    /// Seconds to wait for a reading that would void the run.
    #[serde(default)]
    pub wait_s: f64,
}

/// Where a reading comes from.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// A fact.
    Fact(String),
    /// The highest value of some columns of a sample.
    Highest(Columns),
}

/// Columns of a sample.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// The source that has them.
    pub source: String,
    /// Their names.
    #[serde(rename = "columns")]
    pub names: Vec<String>,
    /// The one without which there is no reading.
    #[serde(default)]
    pub needed: Option<String>,
}

/// How readings are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Their difference.
    Distance,
    /// The larger one divided by the smaller one.
    Ratio,
    /// Whether they are equal.
    Same,
}

/// A reading.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Reading {
    /// A number.
    Number(f64),
    /// A text; `none` if the machine does not have the thing to read.
    Text(String),
}

/// The text of a reading that the machine does not have.
const ABSENT: &str = "none";

/// Returns the last value of a sample's column, in the column's unit.
fn last(sample: &Value, name: &str) -> Option<f64> {
    let value = sample["columns"][name].as_array()?.last()?.as_f64()?;
    Some(value / sample["units"][name]["per_unit"].as_f64()?)
}

/// Whether a sample says that this machine lacks a source.
fn lacks(sample: &Value, source: &str) -> bool {
    !sample["absent"][source].is_null()
}

impl Source {
    /// Returns the reading in the answers to `sample` and `facts`; None if it failed.
    #[must_use]
    pub fn read(&self, sample: &Value, facts: &Value) -> Option<Reading> {
        match self {
            Self::Fact(name) => {
                let fact = &facts["facts"][name];
                if !fact["absent"].is_null() {
                    return Some(Reading::Text(ABSENT.to_owned()));
                }
                let text = fact["value"].as_str().map(|text| Reading::Text(text.to_owned()));
                text.or_else(|| fact["value"].as_f64().map(Reading::Number))
            }
            Self::Highest(wanted) => {
                if lacks(sample, &wanted.source) {
                    return Some(Reading::Text(ABSENT.to_owned()));
                }
                if wanted
                    .needed
                    .as_ref()
                    .is_some_and(|name| last(sample, name).is_none())
                {
                    return None;
                }
                let values = wanted.names.iter().filter_map(|name| last(sample, name));
                values.reduce(f64::max).map(Reading::Number)
            }
        }
    }
}

impl Gate {
    /// Returns why this reading voids a run, compared with that of the first run; None if it doesn't, or
    /// if one of them is unknown.
    #[must_use]
    pub fn refusal(&self, first: Option<&Reading>, now: Option<&Reading>) -> Option<String> {
        let (first, now) = (first?, now?);
        let is_refused = match (self.rule, first, now) {
            (Rule::Same, _, _) => first != now,
            (Rule::Distance, Reading::Number(first), Reading::Number(now)) => {
                (now - first).abs() > self.refuse
            }
            (Rule::Ratio, Reading::Number(first), Reading::Number(now)) => {
                let (low, high) = (first.min(*now), first.max(*now));
                high > low && high > low * self.refuse
            }
            // A number beside none; two texts are both none.
            (_, first, now) => first != now,
        };
        is_refused.then(|| {
            format!(
                "{}: {} in the first run, {} now",
                self.name,
                first.shown(),
                now.shown()
            )
        })
    }
}

impl Reading {
    fn shown(&self) -> String {
        match self {
            Self::Number(number) => format!("{number}"),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Limits that end a plan.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The highest temperature in degrees Celsius.
    #[serde(default)]
    pub temperature_c: Option<f64>,
    /// The highest share of time in which all tasks wait for memory.
    #[serde(default)]
    pub memory_pressure_share: Option<f64>,
}

impl Limits {
    /// Whether there is any limit.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.temperature_c.is_some() || self.memory_pressure_share.is_some()
    }
}

/// Sources of samples that the limits need.
pub const SOURCES: [&str; 2] = ["temperature", "pressure"];
/// Columns of temperatures begin with this.
const TEMPERATURES: &str = "temperature.";
/// How long all tasks have waited for memory since boot, in seconds.
const STALLED: &str = "pressure.memory.full";
/// Over a shorter time, a share of it means nothing.
const SHORTEST_NS: f64 = 5e8;

/// Compares samples with the limits.
#[derive(Debug, Default)]
pub struct LimitWatch {
    before: Option<(f64, f64)>,
}

impl LimitWatch {
    /// Returns the limit that a sample exceeds, and the value that exceeds it.
    pub fn passed(&mut self, limits: &Limits, sample: &Value) -> Option<String> {
        let names = sample["columns"].as_object().into_iter().flatten();
        let shown =
            names.filter_map(|(name, _)| name.starts_with(TEMPERATURES).then(|| last(sample, name))?);
        let hottest = shown.reduce(f64::max);
        if let (Some(limit), Some(value)) = (limits.temperature_c, hottest) {
            if value > limit {
                return Some(format!("the temperature is {value:.1} °C (limit {limit} °C)"));
            }
        }
        let share = self.stalled_share(sample)?;
        let limit = limits.memory_pressure_share.filter(|limit| share > *limit)?;
        Some(format!(
            "all tasks waited for memory {:.0} % of the time (limit {} %)",
            100.0 * share,
            100.0 * limit
        ))
    }

    fn stalled_share(&mut self, sample: &Value) -> Option<f64> {
        let now_ns = sample["times_ns"].as_array()?.last()?.as_f64()?;
        let stalled_s = last(sample, STALLED)?;
        let (since_ns, before_s) = *self.before.get_or_insert((now_ns, stalled_s));
        if now_ns - since_ns < SHORTEST_NS {
            return None;
        }
        self.before = Some((now_ns, stalled_s));
        Some((stalled_s - before_s) / ((now_ns - since_ns) / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gate(value: Value) -> Gate {
        serde_json::from_value(value).unwrap()
    }

    fn heat(millis: i64) -> Value {
        json!({
            "columns": {"temperature.a": [30_000, millis], "temperature.b": [1, null]},
            "units": {"temperature.a": {"per_unit": 1000}, "temperature.b": {"per_unit": 1000}},
            "absent": {},
        })
    }

    #[test]
    fn a_temperature_voids_a_run_only_far_from_that_of_the_first() {
        let gate = gate(json!({
            "gate": "start_temperature", "rule": "distance", "refuse": 8.0, "wait_s": 60.0,
            "reading": {"highest": {"source": "temperature", "columns": ["temperature.a", "temperature.b"]}},
        }));
        let read = |millis| gate.reading.read(&heat(millis), &Value::Null);
        let first = read(45_000);
        assert_eq!(first, Some(Reading::Number(45.0)));
        for (millis, is_void) in [(53_000, false), (53_100, true), (36_900, true)] {
            let told = gate.refusal(first.as_ref(), read(millis).as_ref());
            assert_eq!(told.is_some(), is_void, "{millis}");
        }
        let none = gate
            .reading
            .read(&json!({"absent": {"temperature": "no sensor"}}), &Value::Null);
        assert!(gate.refusal(first.as_ref(), none.as_ref()).is_some());
        assert!(gate.refusal(none.as_ref(), none.as_ref()).is_none());
        assert!(gate.refusal(first.as_ref(), None).is_none());
    }

    #[test]
    fn a_sensor_that_is_needed_and_silent_gives_no_reading() {
        let columns =
            json!({"source": "temperature", "columns": ["temperature.a"], "needed": "temperature.b"});
        let source: Source = serde_json::from_value(json!({ "highest": columns })).unwrap();
        assert_eq!(source.read(&heat(45_000), &Value::Null), None);
    }

    #[test]
    fn a_power_source_must_stay_the_same() {
        let gate = gate(json!({"gate": "on_ac", "rule": "same", "reading": {"fact": "power.source"}}));
        let read = |fact: Value| {
            let facts = json!({"facts": {"power.source": fact}});
            gate.reading.read(&Value::Null, &facts)
        };
        let (mains, battery) = (read(json!({"value": "mains"})), read(json!({"value": "battery"})));
        assert!(gate.refusal(mains.as_ref(), mains.as_ref()).is_none());
        assert!(gate
            .refusal(mains.as_ref(), battery.as_ref())
            .unwrap()
            .contains("battery now"));
        assert_eq!(read(json!({"unknown": "unreadable"})), None);
    }

    #[test]
    fn a_ratio_counts_both_ways() {
        let gate = gate(json!({"gate": "uptime", "rule": "ratio", "refuse": 4.0, "reading": {"fact": "x"}}));
        let is_void = |first: f64, now: f64| {
            gate.refusal(Some(&Reading::Number(first)), Some(&Reading::Number(now)))
                .is_some()
        };
        assert!(
            !is_void(100.0, 400.0) && is_void(100.0, 401.0) && is_void(401.0, 100.0) && is_void(0.0, 1.0)
        );
        assert!(!is_void(0.0, 0.0));
    }

    #[test]
    fn limits_are_passed_by_heat_and_by_stalls_over_a_while() {
        let limits: Limits =
            serde_json::from_value(json!({"temperature_c": 90, "memory_pressure_share": 0.5})).unwrap();
        let mut watch = LimitWatch::default();
        assert_eq!(watch.passed(&limits, &heat(90_000)), None);
        assert!(watch.passed(&limits, &heat(90_100)).unwrap().contains("90.1 °C"));
        let stall = |at_ms: u64, stalled_us: u64| {
            json!({
                "times_ns": [at_ms * 1_000_000], "columns": {"pressure.memory.full": [stalled_us]},
                "units": {"pressure.memory.full": {"per_unit": 1_000_000}}, "absent": {},
            })
        };
        assert_eq!(watch.passed(&limits, &stall(0, 0)), None);
        assert_eq!(watch.passed(&limits, &stall(100, 100_000)), None, "too short");
        assert_eq!(watch.passed(&limits, &stall(1000, 400_000)), None);
        assert!(watch
            .passed(&limits, &stall(2000, 1_000_000))
            .unwrap()
            .contains("60 %"));
    }
}
