use braid_carrier::web::response;

/// A stranger's input on the TLS carrier's port is answered as by an ordinary web server.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn web(data: &[u8]) {
    let answer = String::from_utf8(response(data)).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    assert!(matches!(status, Some("200" | "400" | "404" | "405")), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
    assert!(body.len() == length || body.is_empty(), "{length}");
}
