use crate::build::any_spec;
use braid_inner::{Ecn, Layer, ecn, set_ce};
use proptest::prelude::*;

#[test]
fn what_is_not_ip_has_no_ecn() {
    let mut arp = vec![0xff; 42];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(ecn(&arp, Layer::L2), None);
    assert!(!set_ce(&mut arp, Layer::L2));
    assert_eq!(ecn(&[], Layer::L3), None);
}

proptest! {
    #[test]
    fn marks_capable_senders_only(spec in any_spec(0..100)) {
        let expected = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(spec.tos & 3)];
        let mut bytes = spec.bytes();
        prop_assert_eq!(ecn(&bytes, spec.layer()), Some(expected));
        let marked = set_ce(&mut bytes, spec.layer());
        prop_assert_eq!(marked, expected != Ecn::NotEct);
        let mut model = spec.clone();
        if marked {
            model.tos |= 3;
        }
        prop_assert_eq!(bytes, model.bytes());
    }
}
