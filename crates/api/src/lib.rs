//! (room in building)
