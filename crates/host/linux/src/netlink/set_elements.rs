//! Adds and removes elements of nftables sets without running nft (linux/netfilter/nf_tables.h), as
//! a DNS answer is held back meanwhile.

use super::message::Request;
use super::nftables::{OF_INET, SUBSYSTEM};
use super::{Netlink, octets};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// An element of a set whose elements expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetElement {
    /// The set, of a table of family `inet`.
    pub set: String,
    /// Its key parts, all of one IP version.
    pub key: Vec<IpAddr>,
    /// For maps, the chain that it leads to.
    pub verdict: Option<String>,
    /// How long it stays from now on; `None` to remove it.
    pub lasts: Option<Duration>,
}

const NEW_ELEMENT: u16 = SUBSYSTEM << 8 | 12;
const DELETE_ELEMENT: u16 = SUBSYSTEM << 8 | 14;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_TIMEOUT: u16 = 4;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;
const NFT_GOTO: i32 = -4;
/// An element must exist to be removed.
const A_MOMENT: Duration = Duration::from_secs(60);

/// Sets elements' lifetimes. The socket stays open because the kernel closes an nf_tables socket
/// only after an RCU grace period (`nft_rcv_nl_event`), some 15 ms.
///
/// # Errors
/// The kernel's error; `NotFound` if a set doesn't exist.
pub(crate) fn set_elements(
    netlink: &mut Netlink,
    table: &str,
    elements: &[SetElement],
) -> io::Result<()> {
    let all = || elements.iter().flat_map(|element| made_anew(table, element, true)).collect();
    match batch(netlink, all()) {
        Err(error) if leads_elsewhere(&error) => {}
        outcome => return outcome,
    }
    // One of them exists and leads elsewhere.
    for element in elements {
        match batch(netlink, made_anew(table, element, true)) {
            Err(error) if leads_elsewhere(&error) => {
                batch(netlink, made_anew(table, element, false))?;
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

/// `EBUSY` (`EEXIST` on newer kernels): the map has this element with another verdict.
fn leads_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists)
}

/// An existing element keeps its timeout unless it is recreated; `may_be_gone` if it may not exist.
fn made_anew(table: &str, element: &SetElement, may_be_gone: bool) -> Vec<Request> {
    let mut requests = Vec::new();
    if may_be_gone {
        requests.push(request(NEW_ELEMENT, table, element, Some(A_MOMENT)));
    }
    requests.push(request(DELETE_ELEMENT, table, element, None));
    if element.lasts.is_some() {
        requests.push(request(NEW_ELEMENT, table, element, element.lasts));
    }
    requests
}

fn batch(netlink: &mut Netlink, requests: Vec<Request>) -> io::Result<()> {
    let frame = |kind| {
        let [high, low] = SUBSYSTEM.to_be_bytes();
        Request::new(kind, 0).fixed(&[libc::AF_UNSPEC as u8, 0, high, low])
    };
    netlink.batch(frame(BATCH_BEGIN), requests, frame(BATCH_END))
}

fn request(kind: u16, table: &str, element: &SetElement, lasts: Option<Duration>) -> Request {
    let flags = if kind == NEW_ELEMENT { libc::NLM_F_CREATE } else { 0 };
    let key: Vec<u8> = element.key.iter().flat_map(|part| octets(*part)).collect();
    Request::new(kind, flags)
        .fixed(&OF_INET)
        .string(NFTA_SET_ELEM_LIST_TABLE, table)
        .string(NFTA_SET_ELEM_LIST_SET, &element.set)
        .nested(NFTA_SET_ELEM_LIST_ELEMENTS, |list| {
            list.nested(NFTA_LIST_ELEM, |item| {
                let item = item.nested(NFTA_SET_ELEM_KEY, |it| it.attribute(NFTA_DATA_VALUE, &key));
                let Some(lasts) = lasts else { return item };
                let item = match &element.verdict {
                    None => item,
                    Some(chain) => item.nested(NFTA_SET_ELEM_DATA, |it| {
                        it.nested(NFTA_DATA_VERDICT, |verdict| {
                            let code = NFT_GOTO.to_be_bytes();
                            verdict
                                .attribute(NFTA_VERDICT_CODE, &code)
                                .string(NFTA_VERDICT_CHAIN, chain)
                        })
                    }),
                };
                let milliseconds = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
                item.attribute(NFTA_SET_ELEM_TIMEOUT, &milliseconds.to_be_bytes())
            })
        })
}
