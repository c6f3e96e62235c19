//! Measures what reading etcd costs with 10,000 homes: `etcd_read ENDPOINT`, with an empty etcd.
use braid_registry::{Etcd, EtcdAccess, Expected, Fleet, Home, Life, Served, Store};
use std::time::Instant;
fn main() {
    let endpoint = std::env::args().nth(1).expect("an endpoint");
    let access =
        EtcdAccess { endpoints: vec![endpoint], prefix: "braid/".into(), ..EtcdAccess::default() };
    let mut store = Etcd::open(access.clone()).unwrap();
    let begun = Instant::now();
    for number in 0..10_000 {
        let home = Home {
            public_key: Some("hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=".into()),
            preshared_key: Some("hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=".into()),
            from: "c1".into(),
            addresses: vec![format!("10.77.{}.{}/32", number / 250, number % 250)],
            ..Home::default()
        };
        let served = Served { by: "c1".into(), epoch: 1 };
        for (key, value) in [
            (Home::key(&format!("h{number}")), serde_json::to_string(&home)),
            (Served::key(&format!("h{number}")), serde_json::to_string(&served)),
        ] {
            store.write(&key, &value.unwrap(), Expected::Any, Life::Lasting).unwrap();
        }
    }
    println!("a write: {:?}", begun.elapsed() / 20_000);
    let mut fresh = Etcd::open(access).unwrap();
    for _ in 0..5 {
        let begun = Instant::now();
        let entries = fresh.read().unwrap();
        let read = begun.elapsed();
        let begun = Instant::now();
        let fleet = Fleet::parse(&entries).unwrap();
        println!("read {read:?}, parsed {:?}: {} homes", begun.elapsed(), fleet.homes.len());
        store.write("alive/c1", "{\"homes\":1,\"kbit\":5}", Expected::Any, Life::Lasting).unwrap();
    }
}
