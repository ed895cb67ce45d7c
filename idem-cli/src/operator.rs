//! Who is at work, for the record of what was changed.

/// `USER@HOST`, as the operating system says.
pub(crate) fn name() -> String {
    format!("{}@{}", user(), host())
}

#[cfg(unix)]
fn user() -> String {
    use nix::unistd::{User, getuid};

    let uid = getuid();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

#[cfg(unix)]
fn host() -> String {
    let host = nix::unistd::gethostname();
    host.map_or_else(|_| "unknown".into(), |host| host.to_string_lossy().into())
}

#[cfg(not(unix))]
fn user() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "unknown".into())
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into())
}
