"""A stand-in of the Hugging Face Hub: the part of its API for models that are sent and fetched."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Log nothing."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, hub = urlsplit(self.path).path, self.server
        hub.requests.append(("POST", path, dict(self.headers)))
        if path == "/api/repos/create":
            given = json.loads(body)
            name = (
                f"{given['organization']}/{given['name']}"
                if "organization" in given
                else given["name"]
            )
            hub.files.setdefault(name, {})
            hub.created.append(given)
            self.answer({"url": f"{hub.url}/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif path.endswith("/preupload/main"):
            files = [
                {**each, "uploadMode": "regular", "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]
            self.answer({"files": files})
        elif path.endswith("/commit/main"):
            name = path.removeprefix("/api/models/").removesuffix("/commit/main")
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    value = entry["value"]
                    hub.files[name][value["path"]] = base64.b64decode(value["content"])
            self.answer(
                {
                    "commitOid": COMMIT,
                    "commitUrl": f"{hub.url}/{name}/commit/{COMMIT}",
                    "success": True,
                }
            )
        else:
            self.answer({"error": f"no route {path}"}, 404)

    def do_GET(self):
        path, hub = unquote(urlsplit(self.path).path), self.server
        hub.requests.append((self.command, path, dict(self.headers)))
        if path.startswith("/api/models/"):
            name, _, _ = path.removeprefix("/api/models/").partition("/revision/")
            name, is_tree, _ = name.partition("/tree/")
            if name not in hub.files:
                self.answer(
                    {"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"}
                )
            elif is_tree:
                self.answer(
                    [
                        {"type": "file", "path": each, "size": len(content), "oid": "0" * 40}
                        for each, content in hub.files[name].items()
                    ]
                )
            else:
                siblings = [{"rfilename": each} for each in hub.files[name]]
                self.answer({"id": name, "sha": COMMIT, "siblings": siblings})
            return
        name, _, file = path.lstrip("/").partition(f"/resolve/{COMMIT}/")
        content = hub.files.get(name, {}).get(file)
        if content is None:
            self.answer({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            return
        etag = hashlib.sha1(content).hexdigest()
        self.send_response(200)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def answer(self, value, status=200, headers=()):
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, text in dict(headers).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def run_hub():
    """A hub in a thread; yields it with its `url`, `files` by repository, and `requests`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as hub:
        hub.url = f"http://127.0.0.1:{hub.server_address[1]}"
        hub.files, hub.requests, hub.created = {}, [], []
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
