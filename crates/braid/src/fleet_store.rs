//! A fleet's registry, as the config names it.

use braid_control::config::{Etcd as EtcdConfig, Registry};
use braid_delivery::read_secret;
use braid_registry::{Etcd, EtcdAccess, Sqlite, Store, StoreError};

/// Opens it; etcd is asked nothing yet.
///
/// # Errors
/// A file that can't be opened or read.
pub fn open(registry: &Registry) -> Result<Box<dyn Store>, StoreError> {
    Ok(match registry {
        Registry::File(file) => Box::new(Sqlite::open(file)?),
        Registry::Etcd(etcd) => Box::new(Etcd::open(access(etcd)?)?),
    })
}

fn access(etcd: &EtcdConfig) -> Result<EtcdAccess, StoreError> {
    let user = match &etcd.user {
        None => None,
        Some((name, file)) => Some((name.clone(), read_secret(file).map_err(StoreError::Refused)?)),
    };
    Ok(EtcdAccess {
        endpoints: etcd.members.clone(),
        prefix: etcd.prefix.clone(),
        ca_file: etcd.ca_file.clone(),
        certificate: etcd.certificate.clone(),
        user,
    })
}
