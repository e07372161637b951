// SPDX-License-Identifier: Apache-2.0
//! Power source, battery, temperatures.

use serde::Serialize;

use super::probe::{absent, count, list, number, text, unknown, Probe};
use super::{Machine, Sink};
use crate::root::Root;

pub(crate) const SUPPLIES: &str = "/sys/class/power_supply";

pub(super) fn collect(machine: &Machine, sink: &mut Sink) {
    let root = machine.root;
    sink.add("power.source", || source(root));
    sink.add("battery.level", || level(root));
    sink.add("thermal.zones", || zones(root));
}

/// Returns the machine's power supplies and their types, without those of mice and headsets.
pub(crate) fn supplies(root: &Root) -> Probe<Vec<(String, String)>> {
    let names = list(root, SUPPLIES)?.into_iter();
    let ours = names
        .filter(|name| text(root, &format!("{SUPPLIES}/{name}/scope")).ok().as_deref() != Some("Device"));
    Ok(ours
        .filter_map(|name| Some((name.clone(), text(root, &format!("{SUPPLIES}/{name}/type")).ok()?)))
        .collect())
}

fn source(root: &Root) -> Probe<&'static str> {
    let supplies = supplies(root)?;
    let batteries: Vec<&str> = supplies
        .iter()
        .filter(|(_, kind)| kind == "Battery")
        .map(|(name, _)| name.as_str())
        .collect();
    if batteries.is_empty() {
        // Without a battery nothing else can power it.
        return Ok("mains");
    }
    let online = |name: &str| number(root, &format!("{SUPPLIES}/{name}/online")).ok();
    let mains: Vec<Option<i64>> = supplies
        .iter()
        .filter(|(_, kind)| kind != "Battery")
        .map(|(name, _)| online(name))
        .collect();
    if mains.iter().any(|online| online.is_some_and(|online| online > 0)) {
        return Ok("mains");
    }
    let status = |name: &&str| text(root, &format!("{SUPPLIES}/{name}/status")).ok();
    let statuses: Vec<String> = batteries.iter().filter_map(status).collect();
    if statuses.iter().any(|status| status == "Discharging") {
        return Ok("battery");
    }
    if statuses
        .iter()
        .any(|status| matches!(status.as_str(), "Charging" | "Full" | "Not charging"))
    {
        return Ok("mains");
    }
    if !mains.is_empty() && mains.iter().all(|online| *online == Some(0)) {
        return Ok("battery");
    }
    unknown("no power supply shows whether it is in use")
}

/// Returns the charge of the machine's batteries in percent; the mean if there are several.
fn level(root: &Root) -> Probe<u64> {
    let supplies = supplies(root)?;
    let mut levels = Vec::new();
    let mut missed = None;
    for (name, _) in supplies.iter().filter(|(_, kind)| kind == "Battery") {
        let path = format!("{SUPPLIES}/{name}/capacity");
        match count(root, &path) {
            Ok(percent) if percent <= 100 => levels.push(percent),
            Ok(percent) => missed = Some(format!("{path}: impossible value {percent} %")),
            Err(miss) => missed = Some(miss.why().to_owned()),
        }
    }
    match (levels.len() as u64, missed) {
        (0, None) => absent("no battery"),
        (0, Some(why)) => unknown(why),
        (several, _) => Ok((levels.iter().sum::<u64>() + several / 2) / several),
    }
}

/// A thermal zone. A faulty sensor has no temperature.
#[derive(Debug, Serialize)]
struct Zone {
    name: String,
    kind: Option<String>,
    temperature_c: Option<f64>,
}

fn zones(root: &Root) -> Probe<Vec<Zone>> {
    const CLASS: &str = "/sys/class/thermal";
    let names = list(root, CLASS)?
        .into_iter()
        .filter(|name| name.starts_with("thermal_zone"));
    Ok(names
        .map(|name| Zone {
            kind: text(root, &format!("{CLASS}/{name}/type")).ok(),
            temperature_c: number(root, &format!("{CLASS}/{name}/temp"))
                .ok()
                .and_then(temperature),
            name,
        })
        .collect())
}

/// Converts thousandths of a degree. Sensors without a reading show exactly 0 or 255 degrees, or an
/// impossible temperature.
fn temperature(thousandths: i64) -> Option<f64> {
    let is_lie = thousandths == 0 || !(-40_000..=200_000).contains(&thousandths);
    i32::try_from(thousandths)
        .ok()
        .filter(|_| !is_lie)
        .map(|value| f64::from(value) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lying_sensors_say_nothing() {
        assert_eq!(temperature(47_500), Some(47.5));
        for lie in [0, 255_000, -274_000, i64::MAX, i64::MIN] {
            assert_eq!(temperature(lie), None, "{lie}");
        }
    }
}
