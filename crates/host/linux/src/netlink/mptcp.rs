//! MPTCP's path manager (linux/mptcp_pm.h).

use super::message::{attributes, u32_at};
use super::{Generic, ip, octets};
use std::io;
use std::net::IpAddr;

const ADD_ADDR: u8 = 1;
const DEL_ADDR: u8 = 2;
const GET_ADDR: u8 = 3;
const SET_LIMITS: u8 = 5;
const GET_LIMITS: u8 = 6;
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
const ADDR_FAMILY: u16 = 1;
const ADDR_ID: u16 = 2;
const ADDR_V4: u16 = 3;
const ADDR_V6: u16 = 4;
const ADDR_FLAGS: u16 = 6;
const ADDR_INTERFACE: u16 = 7;
const FLAG_SIGNAL: u32 = 1;
const FLAG_SUBFLOW: u32 = 2;
const FLAG_BACKUP: u32 = 4;
const FLAG_FULLMESH: u32 = 8;

/// How many subflows and addresses a connection may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of subflows besides the first.
    pub subflows: u32,
    /// Maximum number of accepted addresses that the other end announces.
    pub add_addr_accepted: u32,
}

/// An address that the path manager uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number, from 1.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// The interface that it uses.
    pub interface: Option<u32>,
    /// Subflows are opened from it.
    pub subflow: bool,
    /// It is announced to the other end.
    pub signal: bool,
    /// Used only when nothing else works.
    pub backup: bool,
    /// Opens a subflow to each address of the other end.
    pub fullmesh: bool,
}

impl Generic {
    /// Opens MPTCP's path manager.
    ///
    /// # Errors
    /// `NotFound` when the kernel has no MPTCP.
    pub fn mptcp() -> io::Result<Generic> {
        Generic::open("mptcp_pm", 1)
    }

    /// The limits.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn mptcp_limits(&mut self) -> io::Result<Limits> {
        let mut limits = Limits { subflows: 0, add_addr_accepted: 0 };
        self.query(GET_LIMITS, 0, |body| {
            for (kind, payload) in attributes(body) {
                match (kind, u32_at(payload, 0)) {
                    (ATTR_SUBFLOWS, Some(number)) => limits.subflows = number,
                    (ATTR_RCV_ADD_ADDRS, Some(number)) => limits.add_addr_accepted = number,
                    _ => {}
                }
            }
        })?;
        Ok(limits)
    }

    /// Sets the limits.
    ///
    /// # Errors
    /// `InvalidInput` for more than the kernel allows (8).
    pub fn set_mptcp_limits(&mut self, limits: Limits) -> io::Result<()> {
        self.change(SET_LIMITS, |request| {
            request
                .u32(ATTR_SUBFLOWS, limits.subflows)
                .u32(ATTR_RCV_ADD_ADDRS, limits.add_addr_accepted)
        })
    }

    /// The addresses.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn mptcp_endpoints(&mut self) -> io::Result<Vec<Endpoint>> {
        let mut found = Vec::new();
        self.query(GET_ADDR, libc::NLM_F_DUMP, |body| {
            let address = attributes(body).find(|(kind, _)| *kind == ATTR_ADDR);
            found.extend(address.and_then(|(_, payload)| parse(payload)));
        })?;
        Ok(found)
    }

    /// Adds an address.
    ///
    /// # Errors
    /// `AlreadyExists` when the address or its number is taken; `InvalidInput` for contradicting
    /// flags.
    pub fn add_mptcp_endpoint(&mut self, endpoint: &Endpoint) -> io::Result<()> {
        let flags = [
            (endpoint.signal, FLAG_SIGNAL),
            (endpoint.subflow, FLAG_SUBFLOW),
            (endpoint.backup, FLAG_BACKUP),
            (endpoint.fullmesh, FLAG_FULLMESH),
        ];
        let flags = flags.iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
        let (family, attribute) = match endpoint.address {
            IpAddr::V4(_) => (libc::AF_INET, ADDR_V4),
            IpAddr::V6(_) => (libc::AF_INET6, ADDR_V6),
        };
        self.change(ADD_ADDR, |request| {
            request.nested(ATTR_ADDR, |address| {
                let address = address
                    .attribute(ADDR_FAMILY, &(family as u16).to_ne_bytes())
                    .attribute(ADDR_ID, &[endpoint.id])
                    .attribute(attribute, &octets(endpoint.address))
                    .u32(ADDR_FLAGS, flags);
                match endpoint.interface {
                    Some(index) => address.u32(ADDR_INTERFACE, index),
                    None => address,
                }
            })
        })
    }

    /// Removes the address with this number.
    ///
    /// # Errors
    /// EINVAL when there is none.
    pub fn delete_mptcp_endpoint(&mut self, id: u8) -> io::Result<()> {
        self.change(DEL_ADDR, |request| {
            request.nested(ATTR_ADDR, |address| address.attribute(ADDR_ID, &[id]))
        })
    }
}

fn parse(payload: &[u8]) -> Option<Endpoint> {
    let (mut id, mut address, mut interface, mut flags) = (0, None, None, 0);
    for (kind, payload) in attributes(payload) {
        match kind {
            ADDR_ID => id = *payload.first()?,
            ADDR_V4 | ADDR_V6 => address = ip(payload),
            ADDR_INTERFACE => interface = u32_at(payload, 0).filter(|&index| index != 0),
            ADDR_FLAGS => flags = u32_at(payload, 0)?,
            _ => {}
        }
    }
    Some(Endpoint {
        id,
        address: address?,
        interface,
        subflow: flags & FLAG_SUBFLOW != 0,
        signal: flags & FLAG_SIGNAL != 0,
        backup: flags & FLAG_BACKUP != 0,
        fullmesh: flags & FLAG_FULLMESH != 0,
    })
}
