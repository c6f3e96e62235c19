use braid_rules::{
    Answers, DomainTable, Learnt, read_domains, read_leases, read_networks, read_origins,
};
use braid_server_name::{Hello, Listener, crypto_frames, initials, of_handshake, of_records};
use std::time::Instant;

/// Input from which rules for names are learnt; the first byte selects its kind: a DNS answer, a
/// client's first packet, its payload, a list file. No name contains bytes that a firewall or a log
/// could misinterpret.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn names(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    match kind % 6 {
        0 => {
            let mut rules = DomainTable::default();
            for pattern in ["example", "*.a.example"] {
                rules.insert(pattern.parse().expect("a name"), pattern.to_owned());
            }
            let (mut learnt, now) = (Learnt::default(), Instant::now());
            let lesson = learnt.learn(bytes, &rules, now);
            for (rule, place, _) in &lesson.add {
                assert!(learnt.rules_of(place.address, &[], now).contains(rule));
            }
            // The question that it answers.
            let mut answers = Answers::default();
            let end = bytes.len().min(512);
            for cut in [12, end / 2, end] {
                let mut question = bytes.get(..cut).unwrap_or(bytes).to_vec();
                if let Some(head) = question.get_mut(2..12) {
                    head.copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
                }
                answers.put(&question, bytes, now);
                assert!(answers.get(&question, now).is_none_or(|kept| kept.len() == bytes.len()));
            }
        }
        1 => {
            let asked = Listener::default().hear(bytes, Instant::now());
            asked.iter().for_each(|asked| is_plain(&asked.name));
        }
        2 => named(of_records(bytes)),
        3 => named(of_handshake(bytes)),
        4 => {
            for initial in initials(bytes) {
                initial.handshake(initial.to);
            }
            for (_, piece) in crypto_frames(bytes) {
                named(of_handshake(&piece));
            }
        }
        _ => {
            let text = String::from_utf8_lossy(bytes);
            for pattern in read_domains(&text).iter().flatten() {
                assert_eq!(pattern.to_string().parse().as_ref(), Ok(pattern));
            }
            let _ = read_networks(&text);
            let _ = read_origins(&text);
            read_leases(&text);
        }
    }
}

fn named(hello: Hello) {
    if let Hello::For(name) = hello {
        is_plain(&name);
    }
}

fn is_plain(name: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    assert!(!name.is_empty() && name.chars().all(plain), "{name:?}");
}
