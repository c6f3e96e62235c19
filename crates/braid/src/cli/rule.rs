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
    /// Ask the config which rule a connection would fall under; no tunnel is needed
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
    /// tunnel, direct (beside the tunnel, by a link) or block
    #[arg(long = "do", value_name = "WHAT", value_parser = Offered::<String>::new(["tunnel", "direct", "block"]), hide_possible_values = true)]
    does: String,
    /// Devices of the LAN: addresses, hardware addresses, names of leases
    #[arg(long, value_delimiter = ',')]
    device: Vec<String>,
    /// Networks that connections come from
    #[arg(long, value_delimiter = ',', value_name = "NETWORK")]
    from: Vec<String>,
    /// Networks that they go to
    #[arg(long, value_delimiter = ',', value_name = "NETWORK")]
    to: Vec<String>,
    /// Files with a network a line
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    to_file: Vec<String>,
    /// Names that they go to, with all below
    #[arg(long, value_delimiter = ',')]
    domain: Vec<String>,
    /// Files with a name a line
    #[arg(long, value_delimiter = ',', value_name = "FILE")]
    domain_file: Vec<String>,
    /// Countries that they go to, two letters
    #[arg(long, value_delimiter = ',')]
    country: Vec<String>,
    /// Autonomous systems that they go to
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
    /// Users of this host, by number
    #[arg(long, value_delimiter = ',')]
    uid: Vec<String>,
    /// Programs of this control group, such as system.slice/backup.service
    #[arg(long)]
    cgroup: Vec<String>,
    /// Hours, such as 20:00-06:30
    #[arg(long)]
    time: Option<String>,
    /// Days, such as mon,fri
    #[arg(long, value_delimiter = ',')]
    days: Vec<String>,
    /// With direct: links in this order; else the best by tier
    #[arg(long, value_delimiter = ',')]
    links: Vec<String>,
    /// With direct: tunnel or block, while none of the links works
    #[arg(long, value_parser = Offered::<String>::new(["tunnel", "block"]), hide_possible_values = true)]
    otherwise: Option<String>,
    /// With direct: connections on a later link end when an earlier one works again
    #[arg(long)]
    end_on_recovery: bool,
    /// With tunnel: a mode of its own
    #[arg(long, value_parser = Offered::<String>::new(Mode::WORDS), hide_possible_values = true)]
    mode: Option<String>,
    /// With tunnel: low, normal or high, its share beside other traffic
    #[arg(long, value_parser = Offered::<String>::new(Priority::WORDS), hide_possible_values = true)]
    priority: Option<String>,
    /// With tunnel: what its packets are worth, realtime or bulk
    #[arg(long, value_parser = Offered::<String>::new(Class::WORDS), hide_possible_values = true)]
    class: Option<String>,
    /// With tunnel: twice (each packet by two links) or parity (one for every four, real-time)
    #[arg(long, value_parser = Offered::<String>::new(Redundancy::WORDS), hide_possible_values = true)]
    redundancy: Option<String>,
    /// With tunnel: no more than this comes in, all its connections together, such as 5Mbit
    #[arg(long, value_name = "RATE")]
    rate_down: Option<String>,
    /// With tunnel: no more than this goes out
    #[arg(long, value_name = "RATE")]
    rate_up: Option<String>,
    /// Put it before this rule; else it is the last
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
                        // A rule that is to block would block nothing.
                        Some(trouble) => Err(Failure::failed(format!(
                            "{trouble}, and rule {} isn't added: mend the file first",
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
    /// What may not be meant.
    fn tell_of_doubts(&self, global: &Global) -> Result<(), Failure> {
        let config = global.load_config()?;
        let rule = config.rules.iter().find(|rule| rule.name.as_str() == self.name);
        if rule.is_some_and(|rule| rule.matches == Traffic::default()) {
            failure::tell(
                "it is for all traffic that no rule before it takes: no --to, --device or the like says for which",
            );
        }
        for (_, device) in
            devices_unknown(&config).iter().filter(|(rule, _)| rule.as_str() == self.name)
        {
            failure::tell(&format!(
                "no DHCP lease has the name {device:?} now; it counts as soon as one has"
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
            let why = format!("the config has rule {name} {done}, the running tunnel not: {error}");
            return Err(Failure::failed(why));
        }
    };
    let value = json!({ "rule": name, "done": done, "running": running, "place": place });
    global.print(&value, || match running {
        true => format!("rule {name}: {done} ({place})"),
        false => format!("rule {name}: {done} ({place}), from the next `braid up` on"),
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
        return "no rules: everything goes one way (`braid rule add --help`)".to_owned();
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
