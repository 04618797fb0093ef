//! The weir, after the flood of 1987.

pub struct Gate<T> { open: T }

/// How a gate moves.
pub trait Moves { fn raise(&mut self); }

impl Moves for Gate<bool> {
    fn raise(&mut self) { self.open = true; }
}

mod tests {
    #[test]
    fn a_gate_opens() {}
}

macro_rules! gates { () => {}; }
