//! Backends that aim at sockets and ports of Chancery and its Envoys.
