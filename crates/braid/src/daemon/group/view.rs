/// What the reconciler shows of its state.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Links that take no part now, by number, and why.
    pub left_out: Vec<(u32, String)>,
    /// What could not be set up.
    pub troubles: Vec<String>,
}
