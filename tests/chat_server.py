"""A chat endpoint on loopback that answers as a test tells it to."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Answers as it is told: `behave(number, request)` says how."""

    daemon_threads = True

    def __init__(self, behave=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behave = behave or (lambda number, body: answer(body))
        self.seen, self.keys, self.most, self.now = [], [], 0, 0
        self.lock = threading.Lock()
        self.paths = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        with server.lock:
            server.seen.append(raw.decode())
            server.paths.append(self.path)
            server.keys.append(self.headers.get("Authorization"))
            number = len(server.seen)
            server.now += 1
            server.most = max(server.most, server.now)
        try:
            said = server.behave(number, json.loads(raw))
            if callable(said):
                said(self)
            else:
                send(self, *said)
        finally:
            with server.lock:
                server.now -= 1

    def log_message(self, *_):
        pass


def send(handler, status, content, headers=()):
    handler.send_response(status)
    for key, value in headers:
        handler.send_header(key, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def answer(body, text=None, **more):
    prompt = body["messages"][0]["content"]
    said = text if text is not None else f"neu: {prompt.removeprefix('say: ')} {body['seed']}"
    choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop", **more}
    return 200, json.dumps({"choices": [choice]}).encode()


@contextlib.contextmanager
def serving(behave=None):
    with Server(behave) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
