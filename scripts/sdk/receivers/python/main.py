import base64
import hashlib
import hmac
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

key = base64.b64decode(os.environ.get("WEBHOOK_SECRET", "").removeprefix("whsec_"))
if not key:
    raise SystemExit("Set WEBHOOK_SECRET to the secret of the webhook.")

TOLERANCE = 300  # Seconds: maximum difference between the clocks, and the age after which a replayed message is rejected.
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_IDS = 10_000

seen: dict[str, None] = {}  # In insertion order: the first is the oldest.
lock = threading.Lock()


def is_signed(message_id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 20):
        return False
    if abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(one.encode(), expected) for one in signatures.split(" "))


def is_new(message_id: str) -> bool:
    with lock:
        if message_id in seen:
            return False
        seen[message_id] = None
        if len(seen) > MAX_IDS:
            del seen[next(iter(seen))]
        return True


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            return
        body = self.rfile.read(int(length))
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        message_id, timestamp, signatures = (self.headers.get(name, "") for name in names)
        accepted = is_signed(message_id, timestamp, signatures, body)
        self.send_response(204 if accepted else 401)
        self.end_headers()
        if accepted and is_new(message_id):
            print(json.loads(body)["type"], self.headers.get("webhook-sequence"), flush=True)

    def log_message(self, *args: object) -> None:
        """Disables the line that the base class logs for each request."""


# Behind a proxy that terminates TLS.
server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Receiver)
print(f"listening at http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
