//! Heuristics that no textbook has, each of which can be switched off to see what
//! it is worth (`cargo run --release -p braid-simulator --example ablation`).

/// Which of them are on: all, unless an experiment says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristics {
    /// Links whose rate changes within a few round trips are kept filled with a
    /// short queue (`path/congestion/phase.rs`, `Track`).
    pub tracking: bool,
    /// What is in flight counts the jitter of the way back
    /// (`path/congestion/reverse_jitter.rs`).
    pub reverse_jitter: bool,
    /// A flow that fills whatever it gets doesn't wait for a best path of which
    /// nothing can be foretold (`peer/send/scheduler.rs`).
    pub elastic_flows: bool,
    /// What is late on one path is sent by others that have room to spare, not only
    /// the oldest packet (`path/silence.rs`, `Others`).
    pub spare_reinjection: bool,
    /// Acknowledgements of bulk streams are thinned (`entry/ack_filter.rs`).
    pub ack_thinning: bool,
    /// The entry queue signals nothing while capacities are being found
    /// (`peer/ingress/tuning.rs`).
    pub startup_patience: bool,
    /// The entry queue is longer where paths lose or change
    /// (`peer/ingress/tuning.rs`).
    pub long_queues: bool,
    /// A stream's queue is shortened at once when it is signalled to
    /// (`entry/flow_queue.rs`).
    pub queue_shortening: bool,
    /// Segments that wait together share a header (`peer/ingress/mod.rs`).
    pub segment_joining: bool,
    /// Jitter on the way there is told from a queue by the changes from packet to packet
    /// (`path/congestion/forward_jitter.rs`).
    pub forward_jitter: bool,
    /// Bulk data waits for better paths although its flow fills all, and repairs do
    /// (`peer/send/scheduler.rs`).
    pub waits_for_best: bool,
    /// Of several flows no more waits at the entry than the paths bring in a second
    /// (`peer/ingress/tuning.rs`).
    pub bounded_wait: bool,
    /// Links whose rate changes hold no queue while a call runs beside
    /// (`path/congestion/model.rs`).
    pub yields_to_calls: bool,
    /// A drain ends by what has left the link since the packet that was told of, not by a usual
    /// round trip (`path/congestion/model.rs`).
    pub drains_by_way: bool,
    /// What a path always loses isn't taken for a buffer that overflows
    /// (`path/congestion/usual_loss.rs`).
    pub usual_loss: bool,
    /// Packets that arrive with the spacing they were sent with don't end startup on a path
    /// that jitters (`path/congestion/model.rs`).
    pub startup_jitter: bool,
    /// A few packets that queued behind each other tell a slow link's rate in startup
    /// (`path/congestion/estimator.rs`).
    pub train_estimate: bool,
    /// Drains that change nothing show a new base delay (`path/congestion/model.rs`).
    pub rebasing: bool,
    /// Flows that send while those in turn wait for a path do so on credit
    /// (`entry/fair_queue.rs`).
    pub skipping_on_credit: bool,
    /// Super-packets that would keep the paths busy for long are queued by their segments
    /// (`peer/ingress/mod.rs`).
    pub long_packets_cut: bool,
    /// Reports go a second time by the second best path (`peer/send/feedback.rs`).
    pub report_copies: bool,
    /// Headers of inner packets are compressed (`peer/send/header_compressor.rs`).
    pub header_compression: bool,
    /// Reports go with data where some is sent anyway (`peer/send/feedback.rs`).
    pub report_riding: bool,
    /// Acknowledgements of streams whose sender paces aren't thinned
    /// (`exit/sender_pacing.rs`).
    pub paced_unthinned: bool,
    /// Acknowledgements of such streams go together now and then
    /// (`exit/ack_aggregator.rs`).
    pub ack_aggregation: bool,
}

impl Heuristics {
    /// All of them.
    pub const ALL: Self = Self {
        tracking: true,
        reverse_jitter: true,
        elastic_flows: true,
        spare_reinjection: true,
        ack_thinning: true,
        startup_patience: true,
        long_queues: true,
        queue_shortening: true,
        segment_joining: true,
        forward_jitter: true,
        waits_for_best: true,
        bounded_wait: true,
        yields_to_calls: true,
        drains_by_way: true,
        usual_loss: true,
        startup_jitter: true,
        train_estimate: true,
        rebasing: true,
        skipping_on_credit: true,
        long_packets_cut: true,
        report_copies: true,
        header_compression: true,
        report_riding: true,
        paced_unthinned: true,
        ack_aggregation: true,
    };

    /// Each one's name, and all of them but that.
    pub fn each_off() -> [(&'static str, Self); 25] {
        let all = Self::ALL;
        [
            ("tracking", Self { tracking: false, ..all }),
            ("reverse-jitter", Self { reverse_jitter: false, ..all }),
            ("elastic-flows", Self { elastic_flows: false, ..all }),
            ("spare-reinjection", Self { spare_reinjection: false, ..all }),
            ("ack-thinning", Self { ack_thinning: false, ..all }),
            ("startup-patience", Self { startup_patience: false, ..all }),
            ("long-queues", Self { long_queues: false, ..all }),
            ("queue-shortening", Self { queue_shortening: false, ..all }),
            ("segment-joining", Self { segment_joining: false, ..all }),
            ("forward-jitter", Self { forward_jitter: false, ..all }),
            ("waits-for-best", Self { waits_for_best: false, ..all }),
            ("bounded-wait", Self { bounded_wait: false, ..all }),
            ("yields-to-calls", Self { yields_to_calls: false, ..all }),
            ("drains-by-way", Self { drains_by_way: false, ..all }),
            ("usual-loss", Self { usual_loss: false, ..all }),
            ("startup-jitter", Self { startup_jitter: false, ..all }),
            ("train-estimate", Self { train_estimate: false, ..all }),
            ("rebasing", Self { rebasing: false, ..all }),
            ("skipping-on-credit", Self { skipping_on_credit: false, ..all }),
            ("long-packets-cut", Self { long_packets_cut: false, ..all }),
            ("report-copies", Self { report_copies: false, ..all }),
            ("header-compression", Self { header_compression: false, ..all }),
            ("report-riding", Self { report_riding: false, ..all }),
            ("paced-unthinned", Self { paced_unthinned: false, ..all }),
            ("ack-aggregation", Self { ack_aggregation: false, ..all }),
        ]
    }
}

impl Default for Heuristics {
    fn default() -> Self {
        Self::ALL
    }
}
