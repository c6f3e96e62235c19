//! The example that embeds the core does what it says.

#[path = "../examples/embed.rs"]
#[allow(dead_code, reason = "its main function")]
mod embed;

#[test]
fn packets_come_out_by_both_links() {
    let (delivered, bytes) = embed::upload(2_000);
    assert_eq!(delivered, 2_000);
    // The first link alone could not carry it all: headers come on top.
    assert!(bytes.iter().all(|bytes| *bytes > 100_000), "{bytes:?}");
}
