//! Objects whose author reaches for files, the environment or code of a proxy.
