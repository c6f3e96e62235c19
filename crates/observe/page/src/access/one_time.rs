use super::token::Token;
use braid_control::request::UiRole;
use std::time::{Duration, Instant};

/// Single-use addresses that log in whoever opens them.
#[derive(Debug, Default)]
pub struct OneTime(Vec<(Token, UiRole, Instant)>);

/// How long one is valid.
pub const VALID: Duration = Duration::from_secs(300);
const MOST: usize = 16;

impl OneTime {
    /// Issues a new one.
    pub fn issue(&mut self, role: UiRole, now: Instant) -> Token {
        self.forget_old(now);
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        let token = Token::random();
        self.0.push((token.clone(), role, now));
        token
    }

    /// Returns its role, once.
    pub fn redeem(&mut self, token: &Token, now: Instant) -> Option<UiRole> {
        self.forget_old(now);
        let at = self.0.iter().position(|(known, ..)| known == token)?;
        Some(self.0.remove(at).1)
    }

    fn forget_old(&mut self, now: Instant) {
        self.0.retain(|(_, _, issued)| now.saturating_duration_since(*issued) < VALID);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_good_once_and_not_for_long() {
        let (mut links, now) = (OneTime::default(), Instant::now());
        let token = links.issue(UiRole::Admin, now);
        assert_eq!(links.redeem(&Token::random(), now), None);
        assert_eq!(links.redeem(&token, now), Some(UiRole::Admin));
        assert_eq!(links.redeem(&token, now), None);
        let token = links.issue(UiRole::Reader, now);
        assert_eq!(links.redeem(&token, now + VALID), None);
    }
}
