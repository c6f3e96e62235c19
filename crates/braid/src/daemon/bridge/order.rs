//! Which links are used before others: by tier, and within a tier by price.

use braid_control::config::Link;

/// The tiers that the core is told, in the order of `links`. Where prices differ
/// within a tier, the dearer links make tiers of their own right after it;
/// without prices each link has the tier that the config gives it. A link
/// without a price costs nothing.
pub fn tiers(links: &[&Link]) -> Vec<u8> {
    let step = |link: &Link| (link.tier, link.price.unwrap_or(0.0));
    let mut steps: Vec<(u8, f64)> = links.iter().map(|link| step(link)).collect();
    steps.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    steps.dedup();
    let (mut told, mut before, mut added) = (Vec::new(), None, 0u8);
    for step in steps {
        if before.replace(step.0) == Some(step.0) {
            added = added.saturating_add(1);
        }
        told.push((step, step.0.saturating_add(added)));
    }
    let tier = |link: &&Link| {
        let found = told.iter().find(|(known, _)| *known == step(link));
        found.map_or(link.tier, |(_, tier)| *tier)
    };
    links.iter().map(tier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::config::{Cap, LinkBinding, TransportChoice};

    fn link(tier: u8, price: Option<f64>) -> Link {
        Link {
            name: "x".parse().expect("a name"),
            binding: LinkBinding { fwmark: Some(1), ..LinkBinding::default() },
            tier,
            metered: None,
            standby: false,
            price,
            cap: Cap::default(),
            quota: None,
            transport: TransportChoice::Auto,
            proxy: None,
        }
    }

    fn tiers_of(links: &[(u8, Option<f64>)]) -> Vec<u8> {
        let links: Vec<Link> = links.iter().map(|&(tier, price)| link(tier, price)).collect();
        tiers(&links.iter().collect::<Vec<_>>())
    }

    #[test]
    fn without_differing_prices_tiers_stay_as_they_are() {
        assert_eq!(tiers_of(&[(0, None), (3, None), (3, None)]), [0, 3, 3]);
        assert_eq!(tiers_of(&[(1, Some(2.0)), (0, Some(9.0)), (1, Some(2.0))]), [1, 0, 1]);
    }

    #[test]
    fn a_dearer_link_comes_after_the_cheaper_ones_of_its_tier_and_before_the_next_tier() {
        let links =
            [(0, Some(5.0)), (0, None), (0, Some(1.0)), (1, None), (1, Some(1.0)), (255, None)];
        assert_eq!(tiers_of(&links), [2, 0, 1, 3, 4, 255]);
    }
}
