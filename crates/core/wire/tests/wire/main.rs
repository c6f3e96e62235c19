//! What is written is read back, and what is not well-formed is refused.

mod frames;
mod header_context;
mod hostile;
mod numbers;
mod support;
