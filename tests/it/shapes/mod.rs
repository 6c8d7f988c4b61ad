//! Tables of every shape.

mod identities;
mod names;
mod partitions;
mod publications;
mod wide;
