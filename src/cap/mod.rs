//! What to cut: numbers in, numbers out.
//!
//! Sizes, limits, the batch budget, the plan and the marker. Nothing here sees a stored byte, JSON or a path.

pub mod batch;
pub mod limits;
pub mod marker;
pub mod plan;
pub mod policy;
pub mod size;
pub mod window;
