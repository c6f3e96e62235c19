use braid_control::enrolled::EnrolledHomes;

/// The file of homes that have joined. What is read is written and read again as the same.
///
/// # Panics
/// When that is not so: what the fuzzer looks for.
pub fn enrolled(data: &[u8]) {
    let Ok(homes) = EnrolledHomes::parse(data) else { return };
    let written = homes.to_json().expect("keys and times can be written");
    assert_eq!(EnrolledHomes::parse(&written).ok(), Some(homes));
}
