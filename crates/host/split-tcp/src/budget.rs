/// Memory that connections are granted for their buffers: each a share of what is left, so
/// that the first ones get all they can use and the last ones still something.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    /// No connection gets more.
    most: u64,
}

/// Each gets this at least: what Linux gives a new connection by itself (`tcp_rmem`,
/// `tcp_wmem`). With so many connections that not even this is left, it is what they
/// exceed their memory by.
const LEAST: u64 = 128 << 10;
/// A new connection gets this part of what is left.
const PART: u64 = 8;

impl Budget {
    pub(crate) fn new(memory: u64, most: u64) -> Self {
        Budget { left: memory, most: most.max(LEAST) }
    }

    /// What the next connection gets, in bytes.
    pub(crate) fn grant(&mut self) -> Grant {
        let bytes = (self.left / PART).clamp(LEAST, self.most);
        let counted = bytes.min(self.left);
        self.left -= counted;
        Grant { bytes, counted }
    }

    /// A connection has ended.
    pub(crate) fn give_back(&mut self, grant: Grant) {
        self.left += grant.counted;
    }
}

/// What a connection may use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) bytes: u64,
    counted: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_get_much_and_all_together_no_more_than_there_is() {
        let mut budget = Budget::new(256 << 20, 16 << 20);
        let grants: Vec<Grant> = (0..20_000).map(|_| budget.grant()).collect();
        assert_eq!((grants[0].bytes, grants[1].bytes), (16 << 20, 16 << 20));
        assert!(grants.windows(2).all(|pair| pair[0].bytes >= pair[1].bytes));
        assert_eq!(grants[19_999].bytes, LEAST);
        assert!(grants.iter().map(|grant| grant.counted).sum::<u64>() <= 256 << 20);
        grants.into_iter().for_each(|grant| budget.give_back(grant));
        assert_eq!(budget.left, 256 << 20);
    }
}
