"""Backends to try the examples with: `backends.py 9001=catalog 9002=cart` answers on each port of this machine with that name.

Below the name stands what arrived, so that one sees what routes and filters did to a request.
"""

import http.server
import sys
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


def serve(name, port=0):
    """Serves `name` on a port of loopback, a free one for 0, until the process ends; returns the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
    server.name = name
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def main(words):
    if not words or "-h" in words or "--help" in words:
        raise SystemExit("usage: backends.py PORT=NAME ...")
    for word in words:
        port, _, name = word.partition("=")
        try:
            serve(name or port, int(port))
        except (OSError, OverflowError, ValueError) as error:
            raise SystemExit(f"backends.py: {word}: {error}")
        print(f"{name or port} answers on http://127.0.0.1:{port}", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
