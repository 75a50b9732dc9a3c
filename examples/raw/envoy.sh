#!/bin/sh
# Starts an Envoy as a workload's, for a Chancery on this machine that serves files: `chancery run --no-envoy`.
#
#   examples/raw/envoy.sh NAMESPACE/NAME [STATE]    STATE: Chancery's state folder, if it is not the one it takes by itself
#
# The Envoy is $CHANCERY_ENVOY, else the one of `make tools`, else `envoy` of $PATH.
set -eu
[ $# -ge 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
state=${2:-${CHANCERY_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/chancery}}
envoy=${CHANCERY_ENVOY:-$(ls "$root"/.tools/envoy/*/bin/envoy 2>/dev/null | tail -1)}

# Each workload has a folder with its socket; the file `gateway` there says whose it is.
folder=
for named in "$state"/gateways/*/gateway; do
    if [ -f "$named" ] && [ "$(cat "$named")" = "workload/$1" ]; then folder=$(dirname "$named"); fi
done
[ -n "$folder" ] || { echo "envoy.sh: no Chancery in $state has the workload $1" >&2; exit 1; }
# Where that path is too long for a socket, the sockets are elsewhere.
[ ! -f "$state/sockets" ] || folder=$(head -n 1 "$state/sockets")/$(basename "$folder")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'kill "$child" 2>/dev/null || true' INT TERM
sed -e "s#/var/lib/chancery/gateways/HASH#$folder#" -e "s#/tmp/envoy-admin.sock#$work/admin.sock#" -e "s#default/edge#$1#" \
    "$root/deploy/envoy-socket.yaml" >"$work/envoy.yaml"
echo "Envoy of $1, configured over $folder/xds.sock"
"${envoy:-envoy}" --config-path "$work/envoy.yaml" --service-node "$(basename "$1").$(dirname "$1")" --log-level warning --disable-hot-restart &
child=$!
wait "$child" || wait "$child" || true
