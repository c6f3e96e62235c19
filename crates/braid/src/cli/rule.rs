//! `braid rule`: where some traffic goes.

use super::explain::{Asked, tell};
use super::failure::{self, Failure, FailureKind};
use super::offered::Offered;
use super::status_table::columns;
use super::{Global, JsonFlag};
use crate::daemon;
use crate::daemon::rules::{devices_unknown, troubles_of_files};
use braid_control::client::ClientError;
use braid_control::config::{
    Action, Class, Config, ConfigEditor, Mode, NewRule, Priority, Redundancy, Rule, Traffic,
    Treatment,
};
use braid_control::status::RuleStatus;
use braid_units::ByteSize;
use clap::{Args, Subcommand};
use serde_json::json;

#[derive(Subcommand)]
pub enum RuleCommand {
    /// List the rules, and what each did while the tunnel runs
    List(List),
    /// Add a rule, also while the tunnel runs
    Add(Box<Add>),
    /// Remove a rule
    Remove(Remove),
    /// Show which rule in the config would match a connection; needs no running tunnel
    Test(Test),
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid rule list")]
pub struct List {
    #[command(flatten)]
    _json: JsonFlag,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid rule add bank --to 203.0.113.0/24 --do direct --links dsl,cable\n  braid rule add tablet --device tablet --time 20:00-06:30 --do block\n  braid rule add voice --dscp ef --do tunnel --mode broadcast --before bank\n  braid rule add tablet --device tablet --do tunnel --rate-down 5Mbit --priority low\n  braid rule add game --domain game.example --do tunnel --redundancy twice"
)]
pub struct Add {
    #[command(flatten)]
    _json: JsonFlag,
    /// The rule's name
    name: String,
    /// tunnel, direct (over a link, bypassing the tunnel) or block
    #[arg(long = "do", value_name = "WHAT", value_parser = Offered::<String>::new(["tunnel", "direct", "block"]), hide_possible_values = true)]
    does: String,
    /// LAN devices: IP addresses, MAC addresses, names in DHCP leases
    #[arg(long, value_delimiter = ',')]
    device: Vec<String>,
    /// Source networks
    #[arg(long, value_delimiter = ',', value_name = "NETWORK")]
    from: Vec<String>,
    /// Destination networks
    #[arg(long, value_delimiter = ',', value_name = "NETWORK")]
    to: Vec<String>,
    /// Files with one destination network per line
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    to_file: Vec<String>,
    /// Destination domains, including their subdomains
    #[arg(long, value_delimiter = ',')]
    domain: Vec<String>,
    /// Files with one destination domain per line
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    domain_file: Vec<String>,
    /// Destination countries, two letters
    #[arg(long, value_delimiter = ',')]
    country: Vec<String>,
    /// Destination autonomous systems
    #[arg(long, value_delimiter = ',')]
    asn: Vec<String>,
    /// tcp, udp or icmp
    #[arg(long)]
    protocol: Option<String>,
    /// The server's port, or a range of ports
    #[arg(long)]
    ports: Option<String>,
    /// Code point of the DS field, such as ef
    #[arg(long)]
    dscp: Option<String>,
    /// Users of this host, by UID
    #[arg(long, value_delimiter = ',')]
    uid: Vec<String>,
    /// Programs of this control group, such as system.slice/backup.service
    #[arg(long)]
    cgroup: Vec<String>,
    /// Time of day, such as 20:00-06:30
    #[arg(long)]
    time: Option<String>,
    /// Days, such as mon,fri
    #[arg(long, value_delimiter = ',')]
    days: Vec<String>,
    /// With direct: links to use, in this order; by default the best tier
    #[arg(long, value_delimiter = ',')]
    links: Vec<String>,
    /// With direct: what to do while none of the links works, tunnel or block
    #[arg(long, value_parser = Offered::<String>::new(["tunnel", "block"]), hide_possible_values = true)]
    otherwise: Option<String>,
    /// With direct: end connections on a later link when an earlier one works again
    #[arg(long)]
    end_on_recovery: bool,
    /// With tunnel: a mode for this traffic alone
    #[arg(long, value_parser = Offered::<String>::new(Mode::WORDS), hide_possible_values = true)]
    mode: Option<String>,
    /// With tunnel: low, normal or high, its share relative to other traffic
    #[arg(long, value_parser = Offered::<String>::new(Priority::WORDS), hide_possible_values = true)]
    priority: Option<String>,
    /// With tunnel: traffic class, realtime or bulk
    #[arg(long, value_parser = Offered::<String>::new(Class::WORDS), hide_possible_values = true)]
    class: Option<String>,
    /// With tunnel: twice (each packet over two links) or parity (one parity packet per four, for
    /// real-time traffic)
    #[arg(long, value_parser = Offered::<String>::new(Redundancy::WORDS), hide_possible_values = true)]
    redundancy: Option<String>,
    /// With tunnel: limit on the receiving rate of all its connections together, such as 5Mbit
    #[arg(long, value_name = "RATE")]
    rate_down: Option<String>,
    /// With tunnel: limit on the sending rate
    #[arg(long, value_name = "RATE")]
    rate_up: Option<String>,
    /// Insert it before this rule; by default it goes last
    #[arg(long, value_name = "RULE")]
    before: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid rule remove bank")]
pub struct Remove {
    #[command(flatten)]
    _json: JsonFlag,
    /// The rule's name
    name: String,
}

#[derive(Args)]
#[command(after_help = "Example:\n  braid rule test 203.0.113.7:443 --from tablet")]
pub struct Test {
    #[command(flatten)]
    asked: Asked,
}

impl RuleCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            RuleCommand::List(_) => list(global),
            RuleCommand::Add(add) => {
                let new = add.new_rule();
                let edit = |editor: &mut ConfigEditor| {
                    let before = troubles_of_files(&editor.check()?);
                    editor.add_rule(&new, add.before.as_deref())?;
                    let after = troubles_of_files(&editor.check()?);
                    match after.into_iter().find(|trouble| !before.contains(trouble)) {
                        // Otherwise a blocking rule would block nothing.
                        Some(trouble) => Err(Failure::failed(format!(
                            "{trouble}; rule {} isn't added: fix the file first",
                            add.name
                        ))),
                        None => Ok(()),
                    }
                };
                change(global, "added", &add.name, edit)?;
                add.tell_of_doubts(global)
            }
            RuleCommand::Remove(remove) => {
                let edit = |editor: &mut ConfigEditor| Ok(editor.remove_rule(&remove.name)?);
                change(global, "removed", &remove.name, edit)
            }
            RuleCommand::Test(test) => test.run(global),
        }
    }
}

impl Add {
    /// Warns about what is probably not intended.
    fn tell_of_doubts(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        let rule = config.rules.iter().find(|rule| rule.name.as_str() == self.name);
        if rule.is_some_and(|rule| rule.matches == Traffic::default()) {
            failure::tell(
                "it matches all traffic that no earlier rule matches, as no --to, --device or the \
                 like narrows it",
            );
        }
        for (_, device) in
            devices_unknown(&config).iter().filter(|(rule, _)| rule.as_str() == self.name)
        {
            failure::tell(&format!(
                "no current DHCP lease has the name {device:?}; the rule applies as soon as one \
                 does"
            ));
        }
        Ok(())
    }

    fn new_rule(&self) -> NewRule {
        let one = |text: &Option<String>| text.iter().cloned().collect();
        NewRule {
            name: self.name.clone(),
            does: self.does.clone(),
            matches: vec![
                ("device", self.device.clone()),
                ("from", self.from.clone()),
                ("to", self.to.clone()),
                ("to_file", self.to_file.clone()),
                ("domain", self.domain.clone()),
                ("domain_file", self.domain_file.clone()),
                ("country", self.country.clone()),
                ("asn", self.asn.clone()),
                ("protocol", one(&self.protocol)),
                ("ports", one(&self.ports)),
                ("dscp", one(&self.dscp)),
                ("uid", self.uid.clone()),
                ("cgroup", self.cgroup.clone()),
                ("time", one(&self.time)),
                ("days", self.days.clone()),
            ],
            settings: vec![
                ("links", self.links.clone()),
                ("otherwise", one(&self.otherwise)),
                ("mode", one(&self.mode)),
                ("class", one(&self.class)),
                ("priority", one(&self.priority)),
                ("redundancy", one(&self.redundancy)),
            ],
            rate: [("down", &self.rate_down), ("up", &self.rate_up)]
                .into_iter()
                .filter_map(|(way, rate)| Some((way, rate.clone()?)))
                .collect(),
            end_on_recovery: self.end_on_recovery,
        }
    }
}

impl Test {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        for query in self.asked.queries()? {
            let answer = daemon::rules::explained_by_config(&config, &query)
                .map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))?;
            tell(global, &query, &answer)?;
        }
        Ok(())
    }
}

/// Changes the config, and the running tunnel if there is one.
fn change(
    global: &Global,
    done: &str,
    name: &str,
    edit: impl FnOnce(&mut ConfigEditor) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let client = global.client()?;
    let mut editor = ConfigEditor::open_alone(&global.config_file())?;
    edit(&mut editor)?;
    editor.save()?;
    let place = editor.place_of("rule", name);
    let running = match client.reload() {
        Ok(()) => true,
        Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => false,
        Err(error) => {
            let why = format!(
                "rule {name} is {done} in the config, but not in the running tunnel: {error}"
            );
            return Err(Failure::failed(why));
        }
    };
    let value = json!({ "rule": name, "done": done, "running": running, "place": place });
    global.print(&value, || match running {
        true => format!("rule {name}: {done} ({place})"),
        false => format!("rule {name}: {done} ({place}), starting with the next `braid up`"),
    })
}

fn list(global: &Global) -> Result<(), Failure> {
    let config = global.load_config()?;
    let running = global.status_if_running()?.map(|status| status.rules);
    let troubles = troubles_of_files(&config);
    let rules: Vec<_> = config
        .rules
        .iter()
        .map(|rule| {
            let now = of(rule, running.as_deref());
            json!({ "name": rule.name.as_str(), "line": rule.line, "does": does(rule), "now": now })
        })
        .collect();
    let value = json!({ "rules": rules, "running": running.is_some(), "troubles": troubles });
    global.print(&value, || {
        let lines = std::iter::once(table(&config, running.as_deref())).chain(troubles.clone());
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn table(config: &Config, running: Option<&[RuleStatus]>) -> String {
    if config.rules.is_empty() {
        return "no rules: all traffic goes the same way (`braid rule add --help`)".to_owned();
    }
    let mut rows =
        vec![["RULE", "LINE", "DOES", "NOW", "CONNECTIONS", "SENT"].map(str::to_owned).to_vec()];
    for rule in &config.rules {
        let mut row = vec![rule.name.to_string(), rule.line.to_string(), does(rule)];
        match of(rule, running) {
            Some(now) => row.extend([
                when(now),
                now.connections.to_string(),
                ByteSize::from_bytes(now.bytes).to_string(),
            ]),
            None => row.extend(["not running", "", ""].map(str::to_owned)),
        }
        rows.push(row);
    }
    columns(&rows).join("\n")
}

fn of<'s>(rule: &Rule, running: Option<&'s [RuleStatus]>) -> Option<&'s RuleStatus> {
    running?.iter().find(|now| now.name == rule.name.as_str())
}

fn when(now: &RuleStatus) -> String {
    match (now.counts_now, &now.link) {
        (false, _) => "not at this time".to_owned(),
        (true, Some(link)) => format!("by {link}"),
        (true, None) if now.does == braid_control::status::RuleDoes::Direct => {
            "no link works".to_owned()
        }
        (true, None) => "counts".to_owned(),
    }
}

fn tunnelled(treatment: &Treatment) -> String {
    let words = treatment.words().into_iter();
    ["tunnel".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(", ")
}

fn does(rule: &Rule) -> String {
    match &rule.action {
        Action::Block => "block".to_owned(),
        Action::Tunnel(treatment) => tunnelled(treatment),
        Action::Direct(direct) if direct.links.is_empty() => "direct".to_owned(),
        Action::Direct(direct) => {
            let links: Vec<&str> = direct.links.iter().map(|link| link.as_str()).collect();
            format!("direct: {}", links.join(", "))
        }
    }
}
