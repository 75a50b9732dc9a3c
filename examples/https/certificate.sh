#!/bin/sh
# Makes a certificate for shop.localhost and bank.localhost, signed by itself, with its key, and writes both as the Secret in
# certificate.yaml. `ca.crt` is for examples that send to who shows this certificate: it is its own authority.
# Run it again for a new one: a running Chancery hands it to Envoy at once. Needs openssl.
#
#   examples/https/certificate.sh [FOLDER]    FOLDER: where certificate.yaml goes, by default beside this script
set -eu
umask 077
folder=${1:-$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)}
command -v openssl >/dev/null 2>&1 || { echo 'certificate.sh: openssl is missing; install the Debian package openssl' >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cat >"$work/config" <<'EOF'
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = shop.localhost
[extensions]
subjectAltName = DNS:shop.localhost, DNS:bank.localhost
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
EOF
openssl req -x509 -config "$work/config" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
    -keyout "$work/key" -out "$work/certificate" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }

# Written beside and renamed into place, so that nobody reads half a file.
{
    printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop-certificate\ntype: kubernetes.io/tls\nstringData:\n'
    printf '  tls.crt: |\n' && sed 's/^/    /' "$work/certificate"
    printf '  tls.key: |\n' && sed 's/^/    /' "$work/key"
    printf '  ca.crt: |\n' && sed 's/^/    /' "$work/certificate"
} >"$folder/.certificate.yaml.new"
mv "$folder/.certificate.yaml.new" "$folder/certificate.yaml"
echo "wrote $folder/certificate.yaml, valid for 30 days"
