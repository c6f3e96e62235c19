use super::token::Token;
use braid_control::request::UiRole;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Who is logged in. Only in memory: a restart logs everybody out.
#[derive(Debug, Default)]
pub struct Sessions(HashMap<Token, Session>);

/// Somebody who is logged in.
#[derive(Clone, Debug)]
pub struct Session {
    /// What they may do.
    pub role: UiRole,
    /// The token in all of the session's forms, so that no other site can submit one.
    pub form_token: Token,
    began: Instant,
    seen: Instant,
}

/// A session ends after this time without a request.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// A session ends after this time in any case.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum number of sessions; the one idle for longest makes room.
const MOST: usize = 64;

impl Sessions {
    /// Starts a session.
    pub fn begin(&mut self, role: UiRole, now: Instant) -> (Token, Session) {
        self.0.retain(|_, session| session.lasts(now));
        while self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, session)| session.seen);
            let Some(oldest) = oldest.map(|(token, _)| token.clone()) else { break };
            self.0.remove(&oldest);
        }
        let session = Session { role, form_token: Token::random(), began: now, seen: now };
        let token = Token::random();
        self.0.insert(token.clone(), session.clone());
        (token, session)
    }

    /// The session with this token, if it is valid; counts as a request of its owner.
    pub fn of(&mut self, token: &Token, now: Instant) -> Option<Session> {
        let session = self.0.get_mut(token).filter(|session| session.lasts(now))?;
        session.seen = now;
        Some(session.clone())
    }

    /// Whether the session with this token is valid; doesn't count as a request of its owner.
    pub fn lasts(&self, token: &Token, now: Instant) -> bool {
        self.0.get(token).is_some_and(|session| session.lasts(now))
    }

    /// Ends a session.
    pub fn end(&mut self, token: &Token) {
        self.0.remove(token);
    }

    /// Ends all sessions, because a password has changed.
    pub fn end_all(&mut self) {
        self.0.clear();
    }
}

impl Session {
    fn lasts(&self, now: Instant) -> bool {
        let since = |at| now.saturating_duration_since(at);
        since(self.seen) < IDLE && since(self.began) < LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_session_ends_when_it_is_idle_and_after_a_week() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let (token, _) = sessions.begin(UiRole::Admin, start);
        assert!(sessions.of(&token, start + 11 * HOUR).is_some());
        assert!(sessions.of(&token, start + 22 * HOUR).is_some());
        assert!(sessions.of(&token, start + 35 * HOUR).is_none());
        let (token, _) = sessions.begin(UiRole::Admin, start);
        let lasts = (1..400).take_while(|hour| sessions.of(&token, start + *hour * HOUR).is_some());
        assert_eq!(lasts.count(), 7 * 24 - 1);
    }

    #[test]
    fn what_is_only_looked_after_does_not_last_longer() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let (token, _) = sessions.begin(UiRole::Reader, start);
        for hour in 1..12 {
            assert!(sessions.lasts(&token, start + hour * HOUR));
        }
        assert!(!sessions.lasts(&token, start + 13 * HOUR));
    }

    #[test]
    fn there_are_never_too_many_and_the_idlest_goes() {
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let at = |n: usize| start + Duration::from_secs(n as u64);
        let tokens: Vec<Token> =
            (0..MOST + 10).map(|n| sessions.begin(UiRole::Reader, at(n)).0).collect();
        assert_eq!(sessions.0.len(), MOST);
        assert!(!sessions.lasts(&tokens[9], at(100)) && sessions.lasts(&tokens[10], at(100)));
        sessions.end(&tokens[10]);
        assert!(!sessions.lasts(&tokens[10], at(100)));
        sessions.end_all();
        assert!(!sessions.lasts(&tokens[70], at(100)));
    }
}
