use braid_handshake::PublicKey;
use braid_wire::ReferralsFrame;

/// A concentrator to which a home is referred by another one: it may be served there, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// Its key.
    pub public_key: PublicKey,
    /// Its name.
    pub name: String,
    /// Where it is reached, HOST:PORT each, as the concentrator has it: not looked at here.
    pub endpoints: Vec<String>,
}

impl Referral {
    /// As many of them as a frame takes, for [`ReferralsFrame::write`].
    pub(super) fn encode(all: &[Referral]) -> Vec<u8> {
        let mut list = Vec::new();
        for referral in all {
            let endpoints: Vec<&str> = referral.endpoints.iter().map(String::as_str).collect();
            let key = referral.public_key.as_bytes();
            ReferralsFrame::push(&mut list, key, &referral.name, &endpoints);
        }
        list
    }
}

/// What the concentrator says of others.
#[derive(Debug, Default)]
pub(super) struct Referred {
    /// Of what it last said; none since it has restarted.
    epoch: Option<u64>,
    last: Vec<Referral>,
    is_news: bool,
}

impl Referred {
    /// It says so now.
    pub fn hear(&mut self, frame: &ReferralsFrame<'_>) {
        if self.epoch.is_some_and(|before| frame.epoch < before) {
            return;
        }
        self.epoch = Some(frame.epoch);
        let said: Vec<Referral> = frame
            .entries()
            .filter_map(|entry| {
                Some(Referral {
                    public_key: PublicKey::from_bytes(entry.public_key).ok()?,
                    name: entry.name.to_owned(),
                    endpoints: entry.endpoints().map(str::to_owned).collect(),
                })
            })
            .collect();
        self.is_news |= said != self.last;
        self.last = said;
    }

    /// Another run of it counts epochs anew.
    pub fn on_another_instance(&mut self) {
        self.epoch = None;
    }

    /// They are others than before.
    pub fn is_news(&self) -> bool {
        self.is_news
    }

    /// All of them, once they are others than before.
    pub fn take(&mut self) -> Option<Vec<Referral>> {
        std::mem::take(&mut self.is_news).then(|| self.last.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_wire::{Frame, Frames};

    fn referral(number: u8) -> Referral {
        Referral {
            public_key: PublicKey::from_bytes([number; 32]).unwrap(),
            name: format!("c{number}"),
            endpoints: vec![format!("192.0.2.{number}:51900"), format!("[2001:db8::{number}]:1")],
        }
    }

    fn hear(referred: &mut Referred, epoch: u64, all: &[Referral]) -> Option<Vec<Referral>> {
        let mut bytes = Vec::new();
        ReferralsFrame::write(epoch, &Referral::encode(all), &mut bytes);
        match Frames::new(&bytes).next() {
            Some(Ok(Frame::Referrals(frame))) => referred.hear(&frame),
            other => panic!("{other:?}"),
        }
        referred.take()
    }

    #[test]
    fn the_last_word_counts_and_is_news_once() {
        let mut referred = Referred::default();
        let (one, two) = ([referral(1)], [referral(1), referral(2)]);
        assert_eq!(hear(&mut referred, 5, &two).as_deref(), Some(&two[..]));
        assert_eq!(hear(&mut referred, 5, &two), None);
        assert_eq!(hear(&mut referred, 4, &one), None, "late");
        assert_eq!(hear(&mut referred, 6, &one).as_deref(), Some(&one[..]));
        assert_eq!(hear(&mut referred, 7, &[]).as_deref(), Some(&[][..]));
        referred.on_another_instance();
        assert_eq!(hear(&mut referred, 1, &one).as_deref(), Some(&one[..]), "its clock went back");
    }
}
