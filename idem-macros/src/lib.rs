//! The macros of idem.
