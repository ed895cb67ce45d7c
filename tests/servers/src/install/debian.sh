# Installs the given packages without starting their services: private servers want the programs.
# A policy that is already there is somebody else's, and stays.
# One installation at a time: another one would take our policy for somebody else's.
set -e
exec 9>/run/lock/idem-install
flock 9
policy=/usr/sbin/policy-rc.d
if (set -C && printf '#!/bin/sh\nexit 101\n' >"$policy") 2>/dev/null; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends "$@"
