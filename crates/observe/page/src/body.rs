//! Bodies of answers.

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use std::convert::Infallible;

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;
