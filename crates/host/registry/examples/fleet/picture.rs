use crate::world::{Outage, Second, World};
use braid_plot::{Band, Curve, Style};

/// Plots the events of each second.
pub fn picture(world: &World) -> String {
    let points = |of: fn(&Second) -> usize| {
        let seconds = world.seconds.iter().enumerate();
        seconds.map(|(at, second)| (at as f64, of(second) as f64)).collect()
    };
    let curve = |name, style, of| Curve { name, style, points: points(of) };
    let curves = [
        curve("homes without service", Style::Thin(0), |it| it.without),
        curve("moves a second", Style::Thin(1), |it| it.moves),
        curve("calls a second", Style::Thin(2), |it| it.calls),
    ];
    let band = |it: &Outage| Band {
        from: it.times.start as f64,
        to: it.times.end as f64,
        label: it.name.to_owned(),
    };
    let bands: Vec<Band> = world.scenario.events.iter().map(band).collect();
    braid_plot::picture(&curves, &bands, world.scenario.seconds as f64, "")
}
