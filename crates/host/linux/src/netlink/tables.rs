//! Tables of nftables and their counters, queried without running nft, which reads every set first
//! (linux/netfilter/nf_tables.h).

use super::message::{Request, attributes, string};
use super::nftables::{OF_INET, SUBSYSTEM, open};
use std::collections::BTreeMap;
use std::io;

/// `struct nfgenmsg` of whichever family (`NFPROTO_UNSPEC`).
const OF_ALL: [u8; 4] = [0; 4];
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
const GET_OBJECT: u16 = SUBSYSTEM << 8 | 19;
const NEW_OBJECT: u16 = SUBSYSTEM << 8 | 18;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_OBJ_TABLE: u16 = 1;
const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
const NFTA_OBJ_DATA: u16 = 4;
const NFT_OBJECT_COUNTER: u32 = 1;
const NFTA_COUNTER_BYTES: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;

/// All tables: their family, as `nfgenmsg` has it, and their names.
///
/// # Errors
/// The kernel's error.
pub(crate) fn tables() -> io::Result<Vec<(u8, String)>> {
    let request = Request::new(GET_TABLE, libc::NLM_F_DUMP).fixed(&OF_ALL);
    let mut tables = Vec::new();
    open()?.query(request, |_, body| {
        let named = attributes(body.get(OF_ALL.len()..).unwrap_or_default())
            .find(|(kind, _)| *kind == NFTA_TABLE_NAME);
        if let (Some(&family), Some((_, name))) = (body.first(), named) {
            tables.push((family, string(name)));
        }
    })?;
    Ok(tables)
}

/// Whether there is a table of family `inet` with this name.
///
/// # Errors
/// The kernel's error.
pub(crate) fn table_exists(name: &str) -> io::Result<bool> {
    let request = Request::new(GET_TABLE, 0).fixed(&OF_INET).string(NFTA_TABLE_NAME, name);
    match open()?.query(request, |_, _| {}) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        other => other.map(|()| true),
    }
}

/// The named counters of a table of family `inet`: packets and bytes. None if there is no such
/// table.
///
/// # Errors
/// The kernel's error.
pub(crate) fn counters(table: &str) -> io::Result<BTreeMap<String, (u64, u64)>> {
    let request = Request::new(GET_OBJECT, libc::NLM_F_DUMP)
        .fixed(&OF_INET)
        .string(NFTA_OBJ_TABLE, table)
        .attribute(NFTA_OBJ_TYPE, &NFT_OBJECT_COUNTER.to_be_bytes());
    let mut counters = BTreeMap::new();
    open()?.query(request, |kind, body| {
        if kind == NEW_OBJECT {
            counters.extend(counter(table, body));
        }
    })?;
    Ok(counters)
}

/// A counter of this table.
fn counter(table: &str, body: &[u8]) -> Option<(String, (u64, u64))> {
    let (mut name, mut counted) = (String::new(), (0, 0));
    for (kind, payload) in attributes(body.get(OF_INET.len()..)?) {
        match kind {
            // Older kernels don't choose.
            NFTA_OBJ_TABLE if string(payload) != table => return None,
            NFTA_OBJ_TYPE if payload != NFT_OBJECT_COUNTER.to_be_bytes() => return None,
            NFTA_OBJ_NAME => name = string(payload),
            NFTA_OBJ_DATA => {
                for (kind, payload) in attributes(payload) {
                    let value = payload.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
                    match kind {
                        NFTA_COUNTER_PACKETS => counted.0 = value,
                        NFTA_COUNTER_BYTES => counted.1 = value,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some((name, counted))
}
