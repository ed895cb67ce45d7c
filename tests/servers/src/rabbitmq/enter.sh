# Runs its arguments, or else launch.sh beside it, with the folder $IDEM_ROOT as root. The server's
# folder, which is our home, has the same path in there. The mounts are of a namespace of our own,
# and end with its last process; nothing forks, so that the process stays the one that was started.
[ $# -gt 0 ] || set -- sh "$HOME/launch.sh"
# Whoever is not root is it in a user namespace, where that is allowed.
[ "$(id -u)" -eq 0 ] || as_root='--user --map-root-user'
exec unshare $as_root --mount sh -ec '
    folders=${HOME%/*}
    mount --rbind /proc "$IDEM_ROOT/proc"
    mount --rbind /dev "$IDEM_ROOT/dev"
    mkdir -p "$IDEM_ROOT$folders"
    mount --rbind "$folders" "$IDEM_ROOT$folders"
    export PATH=/opt/erlang/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    exec chroot "$IDEM_ROOT" "$@"
' enter "$@"
