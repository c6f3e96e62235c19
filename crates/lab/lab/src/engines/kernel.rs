use super::{Bench, EngineError, Running};
use crate::topology::CONCENTRATOR_V4;
use crate::traffic::Streams;

/// One link alone: traffic at home is bound to its device.
pub(super) fn single_link(name: &str, bench: &Bench<'_>) -> Result<Running, EngineError> {
    let link = bench.scenario.link_named(name);
    let Some(place) = link.and_then(|link| bench.topology.links().get(link)) else {
        let links: Vec<&str> =
            bench.scenario.links.iter().map(|link| link.model.name.as_str()).collect();
        return Err(EngineError::NoSuchLink { name: name.to_owned(), links: links.join(", ") });
    };
    let mut running = Running::kernel(CONCENTRATOR_V4.into(), Streams::Tcp);
    running.device = Some(place.device().to_owned());
    Ok(running)
}

/// Flows are spread over the links by the kernel's hash of addresses and ports.
pub(super) fn ecmp(bench: &Bench<'_>) -> Result<Running, EngineError> {
    let setup = bench.topology.ecmp()?;
    let mut running = Running::kernel(CONCENTRATOR_V4.into(), Streams::Tcp);
    running.source = Some(setup.home_v4.into());
    Ok(running)
}
