//! The protocol is sound in every setting that is checked; broken on purpose, it is noticed.

mod checked;
mod flawed;
mod paths;
mod settings;
mod sound;
