//! The page of a host with a pool of loop devices, and no tunnel.

use crate::host::Host;
use crate::served::Served;
use crate::views::Seen;
use crate::way;
use braid_browser::Browser;
use braid_loop_disks::in_private_mounts;
use std::fs;

#[test]
fn a_file_is_found_in_a_snapshot_and_brought_back() {
    in_private_mounts("nas::a_file_is_found_in_a_snapshot_and_brought_back", || {
        let Some(browser) = Browser::start() else { return };
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("btrfs -q subvolume create data/home; echo one > data/home/letter.txt");
        let take = "braid pool snapshot --into data/.snapshots data/home";
        host.sh(take);
        host.sh("echo second > data/home/letter.txt; mkdir data/home/photos");
        host.sh(take);
        let served = Served::start(&host);
        let seen = Seen::at(&browser, way::to_socket(&served.socket));
        let says = |text: &str| {
            browser.wait_until(&format!("return document.body.textContent.includes({text:?})"));
        };
        let follow = |text: &str| {
            let click = format!(
                "const link = [...document.querySelectorAll('main a')].find(a => \
                 a.textContent.trim() === {text:?}); if (link) link.click(); return !!link"
            );
            browser.wait_until(&click);
        };

        seen.open("/");
        says("any one disk may fail");
        seen.judge("nas-disks");
        // A look every five seconds shows what has changed, without a new page.
        browser.run("window.neverReloaded = true", &[]);
        host.sh("btrfs -q filesystem label data renamed");
        says("renamed");
        assert_eq!(browser.run("return window.neverReloaded", &[]), true);

        seen.open("/snapshots");
        seen.judge("nas-snapshots");
        follow("what changed");
        says("photos/");
        seen.judge("nas-compare");
        seen.open("/snapshots");
        // The older one is the second of the list.
        browser.wait_until(
            "const links = document.querySelectorAll('main li a[href*=\"/browse?\"]'); \
             if (links.length === 2) links[1].click(); return links.length === 2",
        );
        says("letter.txt");
        seen.judge("nas-browse");
        follow("restore …");
        let to = host.path("data/back.txt").display().to_string();
        browser.keys("input[name=to]", &to);
        browser.click("form.fields button");
        says("This will happen");
        assert!(!host.path("data/back.txt").exists(), "it was only asked");
        seen.judge("nas-restore");
        browser.click("form[method=post][action*=restore] button");
        says("is a copy");
        seen.judge("nas-restored");
        assert_eq!(fs::read_to_string(to).unwrap(), "one\n");
    });
}
