"""The quickstart, live: two small backends, Chancery, a real Envoy, one edit, one mistake, the status table."""

import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "examples"))
import backends  # noqa: E402

CHANCERY = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release/chancery"
DEADLINE = 30.0  # seconds until a step that does not happen is called a failure


def main():
    place = pathlib.Path(tempfile.mkdtemp(prefix="chancery-demo-"))
    process = None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        port, folder = prepare(place)
        process = start(folder, place)
        show(port, folder, place)
        if sys.stdin.isatty() and sys.stdout.isatty():
            stay(port, folder, process)
    except KeyboardInterrupt:
        pass
    finally:
        if process:
            stop(process)
        shutil.rmtree(place, ignore_errors=True)


def prepare(place):
    """Copies the quickstart and puts in ports that are free on this machine."""
    folder = place / "quickstart"
    shutil.copytree(ROOT / "examples/quickstart", folder)
    catalog, cart = backends.serve("catalog"), backends.serve("cart")
    replace(folder / "services.yaml", "port: 9001", f"port: {catalog}")
    replace(folder / "services.yaml", "port: 9002", f"port: {cart}")
    port = 8080 if free(8080) else free(0)
    replace(folder / "gateway.yaml", "port: 8080", f"port: {port}")
    return port, folder


def start(folder, place):
    say(f"starting chancery run --dir {folder}")
    ready, log = place / "ready", open(place / "log", "wb")
    process = subprocess.Popen(
        [CHANCERY, "run", "--dir", folder, "--state-dir", place / "state", "--ready-file", ready, "--drain-time", "0s"],
        stdout=log, stderr=log, start_new_session=True)
    began = time.monotonic()
    until("Chancery to be ready", lambda: ready.exists() or exited(process, place))
    say(f"ready after {since(began)}")
    return process


def show(port, folder, place):
    until("the first answer", lambda: get(port, "/")[0] == 200)
    for path in ("/", "/cart/items"):
        say(f"GET http://localhost:{port}{path:<12} -> {' '.join(map(str, get(port, path)))}")
    say("editing routes.yaml: /cart becomes /basket")
    replace(folder / "routes.yaml", "value: /cart", "value: /basket")
    began = time.monotonic()
    until("the edit to be live", lambda: get(port, "/basket")[1] == "cart")
    say(f"GET http://localhost:{port}{'/basket':<12} -> 200 cart, live {since(began)} after the edit")
    say("breaking routes.yaml: an unclosed bracket")
    broken = folder / "routes.yaml"
    good = broken.read_text()
    write(broken, good + "  hostnames: [\n")
    until("the mistake to be told", lambda: "routes.yaml" in problems(place))
    print(indent(problems(place)))
    say(f"traffic goes on meanwhile: GET /basket -> {get(port, '/basket')[0]}")
    write(broken, good)
    until("the mistake to be gone", lambda: "routes.yaml" not in problems(place))
    say("repaired. chancery status:")
    print(indent(status(place)), flush=True)


def stay(port, folder, process):
    say(f"still running: edit the files in {folder}, ask http://localhost:{port}/, end with Ctrl-C")
    while process.poll() is None:
        time.sleep(0.2)


def stop(process):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def status(place):
    out = subprocess.run([CHANCERY, "status", "--state-dir", place / "state"], capture_output=True, text=True)
    return out.stdout + out.stderr


def problems(place):
    return subprocess.run([CHANCERY, "status", "problems", "--state-dir", place / "state"],
                          capture_output=True, text=True).stdout


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode().partition("\n")[0]
    except OSError as error:
        return 0, str(error)
    finally:
        connection.close()


def free(port):
    """The port if nobody holds it (any free one for 0), else None."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return None
        return probe.getsockname()[1]


def until(what, holds):
    limit = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > limit:
            raise SystemExit(f"demo: waited {DEADLINE:.0f} s for {what}")
        time.sleep(0.001)


def exited(process, place):
    if process.poll() is not None:
        sys.stderr.write((place / "log").read_text(errors="replace"))
        raise SystemExit(f"demo: chancery ended with exit code {process.returncode}")
    return False


def replace(path, old, new):
    write(path, path.read_text().replace(old, new))


def write(path, text):
    """As editors do: a new file renamed over the old one."""
    beside = path.with_name("." + path.name + ".new")
    beside.write_text(text)
    os.replace(beside, path)


def since(began):
    return f"{(time.monotonic() - began) * 1000:.0f} ms"


def indent(text):
    return "".join("    " + line + "\n" for line in text.rstrip().splitlines())


def say(text):
    print(f"* {text}", flush=True)


if __name__ == "__main__":
    main()
