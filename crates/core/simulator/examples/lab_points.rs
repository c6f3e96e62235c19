//! Writes points of the space ([`Point::draw`]) as scenario files of `braid lab`, to hold the
//! simulator against the kernel, and the tunnel against kernel MPTCP: `lab_points DIR
//! [points=40] [first=0] [most=150] [links=N] [senders=cubic,bbr]`. Those whose links have at
//! most so many megabits a second together, both ways, are taken, each with each sender. Prints
//! a line for each file, parted by tabs: the file, the links' names, what each link gives alone
//! by the simulator, and what the tunnel gives there; megabits of payload a second over the
//! whole time, as the lab counts.
//!
//! `scenarios/measure/map` runs them and prints the tables.

use braid_simulator::{Congestion, Point, Sender, link_name};
use std::path::PathBuf;
use std::process::ExitCode;

struct Options {
    folder: PathBuf,
    points: usize,
    first: u64,
    most_mbit: f64,
    links: Option<usize>,
    senders: Vec<Sender>,
}

fn main() -> ExitCode {
    let Some(options) = Options::read() else {
        eprintln!(
            "usage: lab_points DIR [points=40] [first=0] [most=150] [links=N] [senders=cubic,bbr,reno,udp]"
        );
        return ExitCode::from(2);
    };
    let taken = (options.first..).map(|number| (number, Point::draw(number)));
    let taken = taken.filter(|(_, point)| options.takes(point)).take(options.points);
    for (number, point) in taken {
        for &sender in &options.senders {
            if let Err(error) = write(&options, number, Point { sender, ..point.clone() }) {
                eprintln!("{}: {error}", options.folder.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn write(options: &Options, number: u64, point: Point) -> std::io::Result<()> {
    let name = format!("point-{number}-{}", point.sender);
    let file = options.folder.join(format!("{name}.toml"));
    let Some(text) = point.lab_scenario(&name) else { return Ok(()) };
    std::fs::write(&file, text)?;
    let links = 0..point.scenario.links.len();
    let names: Vec<String> = links.clone().map(link_name).collect();
    let alone: Vec<String> =
        links.map(|link| format!("{:.3}", point.whole(&point.plain(link)))).collect();
    let tunnel = point.whole(&point.by_tunnel().flows[1..]);
    println!("{}\t{}\t{}\t{tunnel:.3}", file.display(), names.join(","), alone.join(","));
    Ok(())
}

impl Options {
    fn read() -> Option<Self> {
        let mut arguments = std::env::args().skip(1);
        let mut options = Self {
            folder: arguments.next()?.into(),
            points: 40,
            first: 0,
            most_mbit: 150.0,
            links: None,
            senders: vec![Sender::Tcp(Congestion::Cubic), Sender::Tcp(Congestion::Bbr)],
        };
        for argument in arguments {
            let (name, value) = argument.split_once('=')?;
            match name {
                "points" => options.points = value.parse().ok()?,
                "first" => options.first = value.parse().ok()?,
                "most" => options.most_mbit = value.parse().ok()?,
                "links" => options.links = Some(value.parse().ok()?),
                "senders" => {
                    options.senders = value.split(',').map(sender).collect::<Option<_>>()?
                }
                _ => return None,
            }
        }
        Some(options)
    }

    fn takes(&self, point: &Point) -> bool {
        let scenario = &point.scenario;
        scenario.stalls.is_none()
            && point.rate().bits_per_sec() as f64 <= self.most_mbit * 1e6
            && self.links.is_none_or(|links| links == scenario.links.len())
    }
}

fn sender(name: &str) -> Option<Sender> {
    Sender::named(name).filter(|sender| sender.is_in_lab())
}
