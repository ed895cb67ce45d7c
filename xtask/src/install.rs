//! Making sure that a server is there to be started.
