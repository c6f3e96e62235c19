/// Text from another program or host, made safe to show: one line of bounded length.
pub fn foreign(text: &str) -> String {
    const MOST: usize = 200;
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MOST).collect()
}
