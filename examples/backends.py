"""Backends to try the examples with: `backends.py 9001=catalog 9002=cart` answers on each port of this machine with that name.

Below the name stands what arrived, so that one sees what routes and filters did to a request. Datagrams to the same port are
answered too. `9003=bank:certificate.yaml` speaks HTTPS, with what certificate.sh wrote into that file.
"""

import http.server
import socketserver
import ssl
import sys
import tempfile
import threading


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        self.rfile.read(length)
        seen = [f"{name.lower()}: {value}" for name, value in self.headers.items()]
        body = "\n".join([self.server.name, f"{self.command} {self.path}", *seen, ""]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_):
        pass


class AnswerDatagram(socketserver.BaseRequestHandler):
    def handle(self):
        data, socket = self.request
        socket.sendto(self.server.name.encode() + b"\n" + data, self.client_address)


def serve(name, port=0, certificate=""):
    """Serves `name` on a port of loopback, a free one for 0, until the process ends; returns the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
    if certificate:
        # The handshake is made by the thread that answers, so that a client that never begins one holds nobody up.
        server.socket = context(certificate).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    servers = [server]
    if port:  # one that is free for connections may be taken for datagrams
        servers.append(socketserver.UDPServer(("127.0.0.1", port), AnswerDatagram))
    for each in servers:
        each.name = name
        threading.Thread(target=each.serve_forever, daemon=True).start()
    return server.server_port


def context(certificate):
    """TLS with the certificate and the key in a Secret's YAML: without indentation they are what `ssl` reads."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with open(certificate, encoding="utf-8") as written, tempfile.NamedTemporaryFile("w") as plain:
        plain.writelines(line.lstrip() for line in written)
        plain.flush()
        made.load_cert_chain(plain.name)
    return made


def main(words):
    if not words or "-h" in words or "--help" in words:
        raise SystemExit("usage: backends.py PORT=NAME[:CERTIFICATE] ...")
    for word in words:
        port, _, name = word.partition("=")
        name, _, certificate = name.partition(":")
        try:
            serve(name or port, int(port), certificate)
        except (OSError, OverflowError, ValueError) as error:
            raise SystemExit(f"backends.py: {word}: {error}")
        print(f"{name or port} answers on http{'s' if certificate else ''}://127.0.0.1:{port}", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
