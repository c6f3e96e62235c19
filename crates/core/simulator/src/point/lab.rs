//! A point as a scenario file of `braid lab`, whose links are the same model with the
//! kernel's own senders and the real program.

use super::{OFFERED, Point, START, Sender, UDP, bits};
use crate::network::LinkSpec;
use crate::scenario::{Action, Timed};
use crate::traffic::Lane;
use braid_link_model::{DirectionModel, Loss, Reorder};
use std::fmt::Write as _;
use std::time::Duration;

impl Point {
    /// The text of the file. None where the lab has no such thing: ends that stand still, senders
    /// that the kernel hasn't.
    pub fn lab_scenario(&self, name: &str) -> Option<String> {
        let what = match self.sender {
            sender if !sender.is_in_lab() => return None,
            Sender::Tcp(_) => format!("kind = \"tcp\"\ncongestion = \"{}\"", self.sender),
            Sender::Udp => {
                format!("kind = \"udp\"\nrate = \"{}%\"\nsize = \"{UDP}B\"", OFFERED * 100.0)
            }
        };
        if self.scenario.stalls.is_some() {
            return None;
        }
        let mut text = format!(
            "name = \"{name}\"\ndescription = \"{self}\"\nduration = \"{}ms\"\nseed = {}\n",
            self.scenario.duration.as_millis(),
            self.scenario.seed,
        );
        for (place, link) in self.scenario.links.iter().enumerate() {
            let LinkSpec { down, up, mtu, .. } = link;
            let (down, up) = (direction(down), direction(up));
            let _ = write!(
                text,
                "\n[[link]]\nname = \"{}\"\ndown = {down}\nup = {up}\nmtu = {mtu}\n",
                link_name(place),
            );
        }
        for event in &self.scenario.events {
            text += &event_text(event)?;
        }
        for lane in &self.lanes {
            let direction = match lane {
                Lane::Down => "down",
                Lane::Up => "up",
            };
            let (flows, start) = (self.flows, START.as_millis());
            let _ = write!(
                text,
                "\n[[traffic]]\n{what}\ndirection = \"{direction}\"\nflows = {flows}\nstart = \"{start}ms\"\n"
            );
        }
        Some(text)
    }
}

/// What the file calls the link of this place.
pub fn link_name(place: usize) -> String {
    format!("link-{}", place + 1)
}

fn event_text(event: &Timed) -> Option<String> {
    let (place, key, direction) = match &event.action {
        Action::SetDown(place, model) => (*place, "down", model),
        Action::SetUp(place, model) => (*place, "up", model),
        _ => return None,
    };
    let (at, name) = (millis(event.at), link_name(place));
    let rate = rate(direction);
    Some(format!(
        "\n[[event]]\nat = \"{at}ms\"\nlink = \"{name}\"\nset = {{ {key} = {{ rate = \"{rate}\" }} }}\n"
    ))
}

fn direction(model: &DirectionModel) -> String {
    let DirectionModel { delay, jitter, loss, queue, reorder, duplicate, corrupt, .. } = model;
    let mut text = format!(
        "{{ rate = \"{}\", delay = \"{}ms\", queue = \"{}B\"",
        rate(model),
        millis(*delay),
        queue.bytes()
    );
    if !jitter.is_zero() {
        let _ = write!(text, ", jitter = \"{}ms\"", millis(*jitter));
    }
    match (loss, loss.burst_packets()) {
        (Loss::None, _) => {}
        (_, None) => {
            let _ = write!(text, ", loss = \"{}%\"", percent(loss.mean().fraction()));
        }
        (_, Some(burst)) => {
            let average = percent(loss.mean().fraction());
            let _ = write!(text, ", loss = {{ average = \"{average}%\", burst = {burst:.0} }}");
        }
    }
    if let Reorder { share, by } = reorder
        && !reorder.is_none()
    {
        let (share, by) = (percent(share.fraction()), millis(*by));
        let _ = write!(text, ", reorder = {{ share = \"{share}%\", delay = \"{by}ms\" }}");
    }
    for (name, share) in [("duplicate", duplicate), ("corrupt", corrupt)] {
        if share.fraction() > 0.0 {
            let _ = write!(text, ", {name} = \"{}%\"", percent(share.fraction()));
        }
    }
    text + " }"
}

fn rate(model: &DirectionModel) -> String {
    format!("{:.0}bit", bits(model))
}

fn percent(share: f64) -> String {
    format!("{:.4}", share * 100.0)
}

fn millis(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}
