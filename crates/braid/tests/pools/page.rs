//! `braid ui serve`: a host with pools and no tunnel, seen by HTTP.

use crate::BRAID;
use crate::host::Host;
use crate::served::Served;
use braid_loop_disks::in_private_mounts;
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn snapshots_are_browsed_compared_and_restored_by_an_admin_and_nothing_else_is_read() {
    let name =
        "page::snapshots_are_browsed_compared_and_restored_by_an_admin_and_nothing_else_is_read";
    in_private_mounts(name, || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("btrfs -q subvolume create data/home");
        host.sh("echo one > data/home/letter.txt; echo x > data/home/gone.txt; mkdir data/home/me");
        host.sh("printf here > \"data/home/$(printf 'q%%\\377')\"");
        host.sh("echo same > 'data/home/me/100 %.txt'; ln -s /etc/passwd data/home/out");
        let take = "braid pool snapshot --into data/.snapshots data/home";
        host.sh(take);
        host.sh(
            "echo second > data/home/letter.txt; rm data/home/gone.txt; echo n > data/home/new",
        );
        host.sh(take);
        let served = Served::start(&host);

        let first = served.get("/");
        for word in ["btrfs-raid1", "any one disk may fail", "2 of 2 disks"] {
            assert!(first.contains(word), "{word}: {first}");
        }
        assert!(served.get("/live?view=disks").contains("data: {\"pools\":"), "it is live");

        let list = host.sh("braid pool snapshot --into data/.snapshots --list --json");
        let list: Value = serde_json::from_str(&list).unwrap();
        let name = |at: usize| list["snapshots"][at]["name"].as_str().unwrap().to_owned();
        let (older, newer) = (name(0), name(1));
        let folder = host.path("data/.snapshots").display().to_string();
        let all = served.get("/snapshots");
        assert!(all.contains(&older) && all.contains(&newer), "{all}");

        let at = |view: &str, path: &str| {
            format!("/snapshots/{view}?folder={folder}&snapshot={older}&path={path}")
        };
        let top = served.get(&at("browse", ""));
        assert!(top.contains("letter.txt") && top.contains("me/") && !top.contains(">new<"));
        assert!(served.get(&at("browse", "me")).contains("path=me%2F100+%2525.txt"), "escaped");
        assert!(served.get(&at("file", "me/100%20%2525.txt")).ends_with("\r\n\r\nsame\n"));
        let file = served.get(&at("file", "letter.txt"));
        assert!(file.ends_with("\r\n\r\none\n"), "{file}");
        assert!(file.contains("attachment") && file.contains("application/octet-stream"), "{file}");

        // What isn't UTF-8 has another name where it is kept.
        let odd = served.get(&at("file", "q%2525%25FF"));
        assert!(odd.ends_with("\r\n\r\nhere"), "{odd}");
        assert!(odd.contains("filename*=UTF-8''q%25%EF%BF%BD\r\n"), "{odd}");

        let changes = format!("/snapshots/compare?folder={folder}&older={older}&newer={newer}");
        let changes = served.get(&changes);
        for (what, path) in [("changed", "letter.txt"), ("removed", "gone.txt"), ("added", "new")] {
            let row = changes.split("<tr>").find(|row| row.contains(&format!(">{path}<")));
            assert!(row.is_some_and(|row| row.contains(what)), "{what} {path}: {changes}");
        }
        assert!(!changes.contains(">me/<") && !changes.contains("100"), "{changes}");

        for path in ["../../../../etc/passwd", "/etc/passwd", "out", "me/../../x", "me", "%2500"] {
            let answer = served.get(&at("file", path));
            assert!(!answer.contains("200 OK") && !answer.contains("root:"), "{path}: {answer}");
        }
        for folder in ["/etc", "/", "data"] {
            let asked = format!("/snapshots/browse?folder={folder}&snapshot=.&path=");
            let answer = served.get(&asked);
            assert!(
                answer.contains("that folder of snapshots") && answer.contains("404 Not Found"),
                "{answer}"
            );
        }

        restores(&host, &served, &folder, &|path: &str, to: &str, more: &str| {
            format!("{}&to={to}{more}", at("restore", path))
        });

        // Whoever is on this host may look at the pools, and not into everybody's files.
        assert!(served.by_port("/disks").contains("btrfs-raid1"));
        let list = served.by_port("/snapshots");
        assert!(list.contains(&older) && !list.contains("/snapshots/browse"), "{list}");
        let views = ["browse", "file", "restore", "compare"];
        for answer in views.map(|view| served.by_port(&at(view, "letter.txt"))) {
            assert!(answer.contains("403 Forbidden") && !answer.contains("one\n"), "{answer}");
        }
        let link = host.sh(&format!("braid ui login --json --socket {}", served.socket.display()));
        let link: Value = serde_json::from_str(&link).unwrap();
        let way = link["url"].as_str().unwrap().split_once("/login/").unwrap().1.to_owned();
        let login = served.by_port(&format!("/login/{way}"));
        assert!(login.to_lowercase().contains("set-cookie"), "{login}");
    });
}

/// `restore` asks for a path's restore to somewhere, with more words.
fn restores(
    host: &Host,
    served: &Served,
    folder: &str,
    restore: &dyn Fn(&str, &str, &str) -> String,
) {
    let to = host.path("data/back.txt").display().to_string();
    let asked = served.get(&restore("letter.txt", &to, ""));
    assert!(asked.contains("becomes a copy") && !host.path("data/back.txt").exists());
    let token = asked.split("name=\"form\" value=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    let refused = served.post(&restore("letter.txt", &to, ""), "form=0");
    assert!(refused.contains("403 Forbidden"), "{refused}");
    assert!(!host.path("data/back.txt").exists());
    let form = format!("form={token}");
    let done = served.post(&restore("letter.txt", &to, ""), &form);
    assert!(done.contains("is a copy"), "{done}");
    assert_eq!(fs::read_to_string(&to).unwrap(), "one\n");

    let over = host.path("data/home/letter.txt").display().to_string();
    let refused = served.post(&restore("letter.txt", &over, ""), &form);
    assert!(refused.contains("already exists: choose to move it aside"), "{refused}");
    assert_eq!(fs::read_to_string(&over).unwrap(), "second\n");
    let done = served.post(&restore("letter.txt", &over, "&replace=1"), &form);
    assert!(done.contains("The previous file is now"), "{done}");
    assert_eq!(fs::read_to_string(&over).unwrap(), "one\n");
    assert_eq!(host.sh("cat data/home/letter.txt.before-restore.*"), "second");

    let outside = host.path("outside").display().to_string();
    for to in [outside.as_str(), "relative", &format!("{folder}/x")] {
        let refused = served.post(&restore("letter.txt", to, ""), &form);
        assert!(refused.contains("400 Bad Request"), "{to}: {refused}");
    }
    assert!(!host.path("outside").exists());
}

#[test]
fn backups_are_looked_into_and_a_file_of_one_is_fetched_and_restored() {
    let name = "page::backups_are_looked_into_and_a_file_of_one_is_fetched_and_restored";
    in_private_mounts(name, || {
        let host = Host::new();
        let (a, b) = (host.disk("a"), host.disk("b"));
        host.create("btrfs-raid1", &[&a, &b]);
        host.sh("mkdir -p data/home/me; echo one > data/home/letter.txt");
        host.sh("echo same > 'data/home/me/100 %.txt'; ln -s /etc/passwd data/home/out");
        let path = |name: &str| host.path(name).display().to_string();
        let (key, target, home) = (path("key"), path("a target"), path("data/home"));
        host.works(&["backup", "init", "--key", &key, &target]);
        host.works(&["backup", "--key", &key, &home, &target]);
        host.sh("echo second > data/home/letter.txt");
        host.works(&["backup", "--key", &key, &home, &target]);
        let list = host.works(&["backup", "list", "--key", &key, "--json", &target]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let older = list["backups"][0]["id"].as_str().unwrap();

        // Only where it was asked for.
        assert!(!Served::start(&host).get("/snapshots").contains("a target"));
        let served = Served::with(&host, &["--backups"]);
        let all = served.get("/snapshots");
        assert!(all.contains("a target") && all.contains("/snapshots/target?folder="), "{all}");
        let folder = target.replace(' ', "%20");
        let there = served.get(&format!("/snapshots/target?folder={folder}"));
        assert!(there.contains(older) && there.contains(&home), "{there}");
        let at = |view: &str, inside: &str| {
            let inside = format!("{}{inside}", &home[1..]);
            format!("/snapshots/{view}?folder={folder}&snapshot={older}&path={inside}")
        };
        let top = format!("/snapshots/browse?folder={folder}&snapshot={older}&path=");
        let first = home.split('/').nth(1).unwrap();
        assert!(served.get(&top).contains(&format!("{first}/")), "{}", served.get(&top));
        let found = served.get(&at("browse", ""));
        assert!(found.contains("letter.txt") && found.contains("me/"), "{found}");
        let file = served.get(&at("file", "/letter.txt"));
        assert!(file.ends_with("\r\n\r\none\n") && file.contains("attachment"), "{file}");
        assert!(served.get(&at("file", "/me/100%20%2525.txt")).ends_with("\r\n\r\nsame\n"));
        for inside in ["/out", "/me", "/nothing", "/../../../../etc/passwd"] {
            let answer = served.get(&at("file", inside));
            assert!(!answer.contains("200 OK") && !answer.contains("root:"), "{inside}: {answer}");
        }
        for folder in ["/etc", "s3://elsewhere/b", ""] {
            let asked = format!("/snapshots/target?folder={folder}");
            assert!(served.get(&asked).contains("doesn't know that target"), "{folder}");
        }

        let restore = |to: &str| format!("{}&to={to}", at("restore", "/letter.txt"));
        let to = path("data/back.txt");
        let asked = served.get(&restore(&to));
        assert!(
            asked.contains("becomes a copy") && !host.path("data/back.txt").exists(),
            "{asked}"
        );
        let token = asked.split("name=\"form\" value=\"").nth(1).unwrap();
        let form = format!("form={}", token.split('"').next().unwrap());
        let done = served.post(&restore(&to), &form);
        assert!(done.contains("is a copy"), "{done}");
        assert_eq!(fs::read_to_string(&to).unwrap(), "one\n");
        let again = served.post(&restore(&to), &form);
        assert!(again.contains("400 Bad Request") && again.contains("already exists"), "{again}");
        let outside = served.post(&restore(&path("outside")), &form);
        assert!(outside.contains("400 Bad Request") && !host.path("outside").exists());

        // Who may only look sees where backups are, and not into them.
        let list = served.by_port("/snapshots");
        assert!(list.contains("a target") && !list.contains("/snapshots/target"), "{list}");
        for asked in [at("file", "/letter.txt"), format!("/snapshots/target?folder={folder}")] {
            assert!(served.by_port(&asked).contains("403 Forbidden"), "{asked}");
        }
        // One whose disk is gone says so, and is there again when that is.
        host.sh("mv 'a target' gone");
        let gone = served.get(&format!("/snapshots/target?folder={folder}"));
        assert!(gone.contains("role=\"alert\""), "{gone}");
        host.sh("mv gone 'a target'");
        assert!(served.get(&format!("/snapshots/target?folder={folder}")).contains(older));
    });
}

#[test]
fn an_address_that_others_reach_takes_a_word() {
    let output = Command::new(BRAID)
        .args(["ui", "serve", "--listen", "0.0.0.0:0", "--ui-socket", "/nonexistent/x"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--plain"), "{said}");
}
