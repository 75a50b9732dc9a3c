//! Sources of objects and sinks of statuses, one module each. A provider turns what its source has into
//! [`store::Batch`]es and knows nothing of what becomes of them.

pub mod file;
pub mod kubernetes;
