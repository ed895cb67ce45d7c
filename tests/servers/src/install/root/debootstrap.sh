# Fills $1 with the Debian release $2 from the mirror $3, as small as it gets, and RabbitMQ.
making=$1 suite=$2 mirror=$3
proxy=$(apt-config dump --no-empty --format '%v' Acquire::http::Proxy)
[ -z "$proxy" ] || export http_proxy="$proxy"
# An old debootstrap does not know a younger release; all have been made alike since bookworm.
debootstrap=/usr/share/debootstrap/scripts
[ -e "$debootstrap/$suite" ] || as=$debootstrap/sid
# In namespaces of its own: no mount and no service of it stays behind, however it ends.
unshare --mount --pid --fork --kill-child \
    debootstrap --variant=minbase --include=rabbitmq-server \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg --force-check-gpg \
    "$suite" "$making" "$mirror" $as
rm -f "$making"/var/cache/apt/archives/*.deb
chmod 755 "$making"
