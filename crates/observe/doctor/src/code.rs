/// Stable identifiers of findings.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $word:literal),+ $(,)?) => {
        /// The kinds of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])+ $variant),+ }

        impl Code {
            /// All kinds.
            pub const ALL: &[Code] = &[$(Code::$variant),+];

            /// The identifier, as in JSON and in the documentation.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $word),+ }
            }
        }
    };
}

codes! {
    /// No tunnel runs of this config.
    NotRunning = "not-running",
    /// There is no `/dev/net/tun`.
    NoTun = "no-tun",
    /// `nft` is missing.
    NoNft = "no-nft",
    /// A peer answers on no link.
    PeerGone = "peer-gone",
    /// What status says of a peer: a used-up join line, a key that two hosts have.
    PeerTrouble = "peer-trouble",
    /// A concentrator is about to go, and homes have no other; or it was forgotten.
    Draining = "draining",
    /// An endpoint's name has no address.
    EndpointUnknown = "endpoint-unknown",
    /// A peer's packets aren't from its addresses.
    NotItsAddresses = "not-its-addresses",
    /// Losses that couldn't be repaired in time.
    RepairFails = "repair-fails",
    /// A link's device isn't there.
    LinkAbsent = "link-absent",
    /// A link's device is switched off.
    LinkOff = "link-off",
    /// No cable, no radio.
    NoCarrier = "no-carrier",
    /// A link's device has no address.
    NoAddress = "no-address",
    /// No router is known on a link.
    NoGateway = "no-gateway",
    /// A link's network lets only its own page through.
    WantsLogin = "wants-login",
    /// A link looks well and nothing comes back over it, while others work.
    UdpBlocked = "udp-blocked",
    /// A link comes and goes.
    LinkFlaps = "link-flaps",
    /// Two links leave by the same router.
    SameGateway = "same-gateway",
    /// Two links' devices are in one network.
    SameNetwork = "same-network",
    /// Two links come out of one line: the peer sees one address.
    SameLine = "same-line",
    /// A link leaves through another tunnel.
    LinkInTunnel = "link-in-tunnel",
    /// A network card runs at half duplex.
    HalfDuplex = "half-duplex",
    /// A network card is slower than the line behind it could be.
    SlowCard = "slow-card",
    /// A network card counts errors.
    CardErrors = "card-errors",
    /// A quota is used up.
    QuotaUsed = "quota-used",
    /// A quota will be used up before it begins anew.
    QuotaSoon = "quota-soon",
    /// A cap of the config holds a link back.
    CapLimits = "cap-limits",
    /// A link loses packets.
    Lossy = "lossy",
    /// A link's queue is long.
    Bufferbloat = "bufferbloat",
    /// A link's delay varies.
    Jitter = "jitter",
    /// A link is far slower to arrive than the fastest.
    FarLink = "far-link",
    /// Large packets vanish on a link.
    MtuBlackHole = "mtu-black-hole",
    /// The peer's packets would be dropped for where they come from.
    RpFilter = "rp-filter",
    /// The tunnel's own packets would go into the tunnel.
    RouteLoop = "route-loop",
    /// Routes lead past the tunnel.
    RouteBeside = "route-beside",
    /// The main table's default route refuses all before the tunnel is asked.
    RouteRefuses = "route-refuses",
    /// A firewall of others refuses what the tunnel forwards.
    ForeignFirewall = "foreign-firewall",
    /// A rule doesn't hold: its list can't be read, names can't be followed, marks run out.
    RuleIgnored = "rule-ignored",
    /// Names of several rules have one address.
    RuleConflict = "rule-conflict",
    /// What status warns of, and this version has no word for.
    Warned = "warned",
    /// The host doesn't forward what LAN and tunnel exchange.
    NotForwarding = "not-forwarding",
    /// IPv6 addresses without a route.
    Ipv6NoRoute = "ipv6-no-route",
    /// IPv6 goes beside a tunnel that carries IPv4 only.
    Ipv6Beside = "ipv6-beside",
    /// Name servers don't answer.
    DnsSilent = "dns-silent",
    /// Questions for names go beside the tunnel.
    DnsBeside = "dns-beside",
    /// The clock isn't right.
    ClockWrong = "clock-wrong",
    /// The kernel is too old for a feature.
    OldKernel = "old-kernel",
    /// The table of connections is nearly full.
    ConntrackFull = "conntrack-full",
    /// The state folder's disk is full.
    StateFolderFull = "state-folder-full",
    /// Messages to people can't be delivered.
    AlertsUndelivered = "alerts-undelivered",
    /// Split TCP connections are refused, since there are too many.
    SplitTcpFull = "split-tcp-full",
    /// The processor here is busy.
    CpuHere = "cpu-here",
    /// The host of this virtual machine takes its time away.
    CpuStolen = "cpu-stolen",
    /// The processor at the other end is busy.
    CpuThere = "cpu-there",
    /// The kernel drops datagrams that weren't read in time.
    ReceiveBuffer = "receive-buffer",
    /// Packets wait too long at the tunnel's device.
    DeviceQueue = "device-queue",
    /// The kernel doesn't take what came out of the tunnel.
    KernelRefuses = "kernel-refuses",
    /// All links together bring less than one alone.
    SlowerTogether = "slower-together",
    /// One connection gets far less than several.
    OneConnection = "one-connection",
    /// A link's rate falls after a burst.
    ShapedAfterBurst = "shaped-after-burst",
    /// Something that all links share is full, such as the concentrator's line.
    CommonLimit = "common-limit",
}
