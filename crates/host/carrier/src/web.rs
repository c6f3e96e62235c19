//! What strangers find: an ordinary web server with one page.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum size of a request's head; browsers' are shorter.
const LONGEST_HEAD: usize = 16 << 10;
const PAGE: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>Welcome</title></head><body><h1>Welcome</h1><p>There is nothing here yet.</p></body></html>\n";

/// Answers one request, of which `head` has already arrived. The caller enforces the timeout.
pub(crate) async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut head: Vec<u8>,
) -> io::Result<()> {
    while !is_whole(&head) && head.len() < LONGEST_HEAD {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    stream.write_all(&response(&head)).await?;
    stream.shutdown().await
}

/// Whether a request's head is complete.
pub(crate) fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|four| four == b"\r\n\r\n")
}

/// The answer to a request with this head.
pub fn response(head: &[u8]) -> Vec<u8> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    let is_http = version.is_some_and(|it| it.starts_with(b"HTTP/1.")) && is_whole(head);
    let (status, body) = match (is_http, method, path) {
        (false, _, _) => ("400 Bad Request", "Bad Request\n"),
        (true, Some(b"GET" | b"HEAD"), Some(b"/" | b"/index.html")) => ("200 OK", PAGE),
        (true, Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "Not Found\n"),
        (true, _, _) => ("405 Method Not Allowed", "Method Not Allowed\n"),
    };
    let kind = if status == "200 OK" { "text/html; charset=utf-8" } else { "text/plain" };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
    let mut response = format!(
        "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         {allow}Connection: close\r\n\r\n",
        body.len()
    );
    if method != Some(b"HEAD") {
        response.push_str(body);
    }
    response.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_answer() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK"),
            ("HEAD / HTTP/1.0\r\n\r\n", "200 OK"),
            ("GET /admin HTTP/1.1\r\n\r\n", "404 Not Found"),
            ("POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            ("GET /\r\n\r\n", "400 Bad Request"),
            ("\0\x01garbage", "400 Bad Request"),
            ("", "400 Bad Request"),
        ] {
            let answer = String::from_utf8(response(request.as_bytes())).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let length = format!("Content-Length: {}", body.len());
            assert!(head.contains(&length) || request.starts_with("HEAD"));
        }
    }
}
