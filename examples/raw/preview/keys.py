#!/usr/bin/env python3
"""Keys and tokens to try the preview with. Needs openssl.

    keys.py new [FOLDER]          makes a key pair; its public half goes into jwt.yaml, which Chancery reads
    keys.py token CLAIM [FOLDER]  prints a token for an hour whose claim `preview` is this, for example pr-7

FOLDER is that of this script if none is named. Git ignores both files: keys are never committed.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import time

ISSUER = "https://issuer.example"

OBJECT = """\
# Made by keys.py.
apiVersion: chancery.io/v1alpha1
kind: EnvoyExtensionConfig
metadata: {name: jwt}
spec:
  workloadSelector:
    matchLabels: {app: preview}
  config:
    name: jwt
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
      providers:
        issuer:
          issuer: ISSUER
          audiences: [preview]
          local_jwks: {inline_string: 'JWKS'}
          claim_to_headers: [{header_name: x-preview, claim_name: preview}]
          clear_route_cache: true # the route is chosen by that header
      rules: [{match: {prefix: /}, requires: {provider_name: issuer}}]
"""


def openssl(*words, text=b""):
    try:
        return subprocess.run(["openssl", *words], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout
    except FileNotFoundError:
        raise SystemExit("keys.py: openssl is missing; install the Debian package openssl")
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"keys.py: openssl {words[0]}: {error.stderr.decode(errors='replace').strip()}")


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def write(file, data, mode):
    """Beside it first and then renamed into its place, so that nobody reads half a file."""
    beside = file.with_name(f".{file.name}.new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as new:
        new.write(data)
    beside.rename(file)


def public(key):
    """The public half as a JWKS. `openssl` prints the modulus as `Modulus=` and hexadecimal digits."""
    modulus = openssl("rsa", "-modulus", "-noout", text=key).decode().strip().partition("=")[2]
    exponent = encoded((65537).to_bytes(3, "big"))
    return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "n": encoded(bytes.fromhex(modulus)), "e": exponent}]}


def new(folder):
    key = openssl("genrsa", "2048")
    write(folder / ".key.pem", key, 0o600)
    text = OBJECT.replace("ISSUER", ISSUER).replace("JWKS", json.dumps(public(key)))
    write(folder / "jwt.yaml", text.encode(), 0o644)
    print(f"wrote {folder / 'jwt.yaml'}")


def token(claim, folder):
    key = folder / ".key.pem"
    if not key.is_file():
        raise SystemExit("keys.py: there is no key yet; first run `keys.py new`")
    claims = {"iss": ISSUER, "aud": "preview", "sub": "somebody", "exp": int(time.time()) + 3600, "preview": claim}
    parts = [{"alg": "RS256", "typ": "JWT"}, claims]
    signed = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    signature = openssl("dgst", "-sha256", "-sign", str(key), text=signed.encode())
    print(f"{signed}.{encoded(signature)}")


def main(words):
    here = pathlib.Path(__file__).resolve().parent
    match words:
        case ["new", *folder] if len(folder) < 2:
            new(pathlib.Path(*folder) if folder else here)
        case ["token", claim, *folder] if len(folder) < 2:
            token(claim, pathlib.Path(*folder) if folder else here)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
