use std::time::Duration;

/// How long an HTTP server (S3, REST) may take until a request counts as failed, and is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// For the connection.
    pub connect: Duration,
    /// For the head of an answer, which a server sends when it has stored everything; and without
    /// any byte passing, either way.
    pub answer: Duration,
    /// For a body, either way, plus what a slow link needs for it.
    pub body: Duration,
}

impl Default for TimeLimits {
    /// 20 s, 120 s, and 60 s. Ours: a busy provider takes seconds, a sleeping disk some ten.
    fn default() -> TimeLimits {
        TimeLimits {
            connect: Duration::from_secs(20),
            answer: Duration::from_secs(120),
            body: Duration::from_secs(60),
        }
    }
}
