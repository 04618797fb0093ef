"""A server that implements the documented GitHub REST API, with a state that tests can change.

It sends no ETags and enforces no limits; the proxy adds both, for any server.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, NoReturn
from urllib.parse import parse_qs, urlsplit

PREFIX = "/api/v3"
CLIENT = "Iv1.the-app"
TOKEN = "ghp_a-token-that-nobody-else-has"


class ErrorResponse(Exception):
    """Raised to respond with this status, and this location for a redirect."""

    def __init__(self, status: int, location: str = "") -> None:
        super().__init__(status)
        self.status = status
        self.location = location


@dataclass
class Repo:
    """A repository with its discussions, in the API's format."""

    name: str
    id: int
    server: GitHubServer
    private: bool = False
    has_issues: bool = True
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    reviews: dict[int, dict[str, Any]] = field(default_factory=dict)
    releases: dict[int, dict[str, Any]] = field(default_factory=dict)
    transferred: dict[int, str] = field(default_factory=dict)
    pushed_at: str = "2026-01-01T00:00:00Z"
    default_branch: str = "main"

    def open(self, title: str = "A title", body: str = "A body", *, by: str = "ada", pull: bool = False) -> int:
        """Open an issue or pull request; return its number."""
        number = max([0, *self.issues, *self.transferred]) + 1
        kind = "pull" if pull else "issues"
        data = self._written(body, by) | {
            "number": number,
            "title": title,
            "state": "open",
            "labels": [],
            "milestone": None,
            "comments": 0,
            "html_url": f"{self.server.web}/{self.name}/{kind}/{number}",
        }
        self.issues[number] = data | ({"pull_request": {"merged_at": None}} if pull else {})
        return number

    def edit(self, number: int, **what: Any) -> None:
        """Change an issue."""
        self.issues[number] |= {**what, "updated_at": self.server.tick()}

    def comment(self, number: int, body: str = "A comment", *, by: str = "bob") -> int:
        """Comment on an issue, which changes the issue; return the comment's id."""
        data = self._written(body, by)
        kind = "pull" if "pull_request" in self.issues[number] else "issues"
        self.comments[data["id"]] = data | {
            "issue_url": f"{self.server.address}/repos/{self.name}/issues/{number}",
            "html_url": f"{self.server.web}/{self.name}/{kind}/{number}#issuecomment-{data['id']}",
        }
        self.issues[number] |= {"comments": self.issues[number]["comments"] + 1, "updated_at": data["updated_at"]}
        return int(data["id"])

    def edit_comment(self, comment: int, body: str) -> None:
        """Edit a comment, which does not change its issue."""
        self.comments[comment] |= {"body": body, "updated_at": self.server.tick()}

    def delete_comment(self, comment: int) -> None:
        """Delete a comment: the comment count of its issue decreases, but not its time of change."""
        issue = int(self.comments.pop(comment)["issue_url"].rpartition("/")[2])
        self.issues[issue]["comments"] -= 1

    def review(self, number: int, body: str = "Why?", path: str = "src/a.py", hunk: str = "@@ -1 +1 @@\n-a\n+b") -> int:
        """Comment on a line of a pull request, which changes the pull request."""
        data = self._written(body, "bob")
        self.reviews[data["id"]] = data | {
            "path": path,
            "diff_hunk": hunk,
            "pull_request_url": f"{self.server.address}/repos/{self.name}/pulls/{number}",
            "html_url": f"{self.server.web}/{self.name}/pull/{number}#discussion_r{data['id']}",
        }
        self.issues[number]["updated_at"] = data["updated_at"]
        return int(data["id"])

    def release(self, tag: str, body: str = "What is new", **more: Any) -> int:
        """Publish a release; return its id."""
        data = self._written(body, "ada")
        data["author"] = data.pop("user")
        url = f"{self.server.web}/{self.name}/releases/tag/{tag}"
        assets = [{"name": "catch.tar.gz", "download_count": 0}]
        self.releases[data["id"]] = {
            **data, "tag_name": tag, "name": f"Release {tag}", "draft": False, "prerelease": False, "assets": assets,
            "published_at": data["created_at"], "html_url": url, **more,
        }  # fmt: skip
        return int(data["id"])

    def delete(self, number: int) -> None:
        """Delete an issue with its comments."""
        del self.issues[number]
        end = f"/{number}"
        self.comments = {k: v for k, v in self.comments.items() if not v["issue_url"].endswith(end)}
        self.reviews = {k: v for k, v in self.reviews.items() if not v["pull_request_url"].endswith(end)}

    def transfer(self, number: int, other: Repo) -> int:
        """Move an issue to another repository, where it gets another number and id."""
        data = self.issues[number]
        new_number = other.open(data["title"], data["body"], by=data["user"]["login"])
        self.delete(number)
        self.transferred[number] = f"/repos/{other.name}/issues/{new_number}"
        return new_number

    def data(self) -> dict[str, Any]:
        """Return the repository in the API's format."""
        return {
            "id": self.id,
            "full_name": self.name,
            "default_branch": self.default_branch,
            "pushed_at": self.pushed_at,
            "has_wiki": False,
            "has_issues": self.has_issues,
            "private": self.private,
            "open_issues_count": sum(issue["state"] == "open" for issue in self.issues.values()),
        }

    def _written(self, body: str, by: str) -> dict[str, Any]:
        number, now = self.server.number(), self.server.tick()
        return {
            "id": number,
            "node_id": f"N_{number}",
            "user": {"login": by},
            "body": body,
            "created_at": now,
            "updated_at": now,
        }


class GitHubServer:
    """The server. `step` is how far its clock advances with each write."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, int] = {}
        self.owners: dict[str, str] = {}
        self.tokens = {TOKEN: "ada"}
        self.agreed: list[str] = []
        self.interval = 5
        self.step = timedelta(seconds=90)
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._numbers = itertools.count(1_000)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        self.web = f"http://127.0.0.1:{self.port}"
        self.address = f"{self.web}{PREFIX}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def repo(self, name: str, **more: Any) -> Repo:
        """Create a repository."""
        self.repos[name] = Repo(name, self.number(), self, **more)
        return self.repos[name]

    def rename(self, old: str, new: str) -> Repo:
        """Rename a repository; its old name redirects to it."""
        repo = self.repos[new] = self.repos.pop(old)
        repo.name = new
        self.renamed[old] = repo.id
        return repo

    def number(self) -> int:
        return next(self._numbers)

    def tick(self) -> str:
        """Advance the clock; return the time."""
        self._now += self.step
        return f"{self._now:%Y-%m-%dT%H:%M:%SZ}"

    # Device login

    def post(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        """Respond to a form. `agreed` contains the outcomes of the user's login, one for each poll."""
        if form.get("client_id") != CLIENT:
            raise ErrorResponse(404)
        if path == "/login/device/code":
            data = {"device_code": "device-1", "user_code": "WDJB-MJHT", "verification_uri": f"{self.web}/login/device"}
            return {**data, "expires_in": 60, "interval": self.interval}
        assert (path, form["device_code"]) == ("/login/oauth/access_token", "device-1")
        step = self.agreed.pop(0)
        return {"access_token": TOKEN, "token_type": "bearer"} if step == "agreed" else {"error": step}

    # Responses

    def answer(self, path: str, query: dict[str, str], authorization: str | None) -> tuple[Any, str]:
        """Return the response to a request and its Link header. Raises `Gone`."""
        user = self._user(authorization)
        match path.strip("/").split("/"):
            case ["user"]:
                return ({"login": user}, "") if user else self._no(401)
            case ["users", owner]:
                kind = self.owners.get(owner, "User")
                return {"id": sum(owner.encode()), "login": owner, "type": kind}, ""
            case ["user", "repos"]:
                return self._page(path, query, [r.data() for r in self._of(user or "")])
            case ["users" | "orgs", owner, "repos"]:
                matching = [r.data() for r in self._of(owner) if not r.private or (user and self.owners.get(owner))]
                return self._page(path, query, matching)
            case ["repos", owner, name, *rest]:
                return self._in_repo(self._repo(f"{owner}/{name}", rest, user), path, rest, query)
            case ["repositories", number, *rest]:
                found = next((repo for repo in self.repos.values() if str(repo.id) == number), None)
                return self._in_repo(found or self._no(404), path, rest, query)
        return self._no(404)

    def _in_repo(self, repo: Repo, path: str, rest: list[str], query: dict[str, str]) -> tuple[Any, str]:
        match rest:
            case []:
                return repo.data(), ""
            case ["issues", *_] if not repo.has_issues:
                return self._no(410)
            case ["issues"]:
                return self._changed(path, query, [dict(issue) for issue in repo.issues.values()])
            case ["issues", "comments"]:
                return self._changed(path, query, list(repo.comments.values()))
            case ["pulls", "comments"]:
                return self._changed(path, query, list(repo.reviews.values()))
            case ["issues", "comments", number]:
                return repo.comments.get(int(number)) or self._no(404), ""
            case ["pulls", "comments", number]:
                return repo.reviews.get(int(number)) or self._no(404), ""
            case ["issues", number] if int(number) in repo.transferred:
                raise ErrorResponse(301, f"{PREFIX}{repo.transferred[int(number)]}")
            case ["issues", number]:
                return repo.issues.get(int(number)) or self._no(410), ""
            case ["issues", number, "comments"]:
                matching = [c for c in repo.comments.values() if c["issue_url"].endswith(f"/{number}")]
                return self._page(path, query, matching)
            case ["releases"]:
                return self._page(path, query, sorted(repo.releases.values(), key=lambda r: -r["id"]))
        return self._no(404)

    def _changed(self, path: str, query: dict[str, str], found: list[dict[str, Any]]) -> tuple[Any, str]:
        if since := query.get("since"):
            found = [one for one in found if one["updated_at"] >= since]
        key = "updated_at" if query.get("sort") == "updated" else "created_at"
        found.sort(key=lambda one: (one[key], one["id"]), reverse=query.get("direction", "desc") == "desc")
        return self._page(path, query, found)

    def _page(self, path: str, query: dict[str, str], found: list[Any]) -> tuple[Any, str]:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        last = max(1, -(-len(found) // size))

        def link(number: int, name: str) -> str:
            query_string = "&".join(f"{key}={value}" for key, value in {**query, "page": str(number)}.items())
            return f'<{{host}}{PREFIX}{path}?{query_string}>; rel="{name}"'

        links = [link(page + 1, "next"), link(last, "last")] if page < last else []
        return found[(page - 1) * size : page * size], ", ".join(links)

    def _repo(self, name: str, rest: list[str], user: str | None) -> Repo:
        if name in self.renamed and name not in self.repos:
            raise ErrorResponse(301, "/".join([f"{PREFIX}/repositories/{self.renamed[name]}", *rest]))
        repo = self.repos.get(name)
        if repo is None or (repo.private and user is None):
            raise ErrorResponse(404)
        return repo

    def _of(self, owner: str) -> list[Repo]:
        return [repo for name, repo in sorted(self.repos.items()) if name.startswith(f"{owner}/")]

    def _user(self, authorization: str | None) -> str | None:
        if authorization is None:
            return None
        token = authorization.removeprefix("Bearer ")
        return self.tokens.get(token) or self._no(401)

    @staticmethod
    def _no(status: int) -> NoReturn:
        raise ErrorResponse(status)


def _handler(server: GitHubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm: ClassVar[bool] = True

        def do_GET(self) -> None:
            split = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            path = split.path.removeprefix(PREFIX)
            headers = {"Content-Type": "application/json; charset=utf-8"}
            try:
                data, link = server.answer(path, query, self.headers.get("Authorization"))
                status, body = 200, json.dumps(data).encode()
                host = f"http://{self.headers.get('Host')}"
                headers |= {"Link": link.replace("{host}", host)} if link else {}
            except ErrorResponse as error:
                status, body = error.status, json.dumps({"message": f"status {error.status}"}).encode()
                headers |= {"Location": f"http://{self.headers.get('Host')}{error.location}"} if error.location else {}
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            try:
                status, data = 200, server.post(self.path, {key: values[0] for key, values in form.items()})
            except ErrorResponse as error:
                status, data = error.status, {"error": "Not Found"}
            body = json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Discard log messages."""

    return Handler


@contextmanager
def serving_hub() -> Iterator[GitHubServer]:
    server = GitHubServer()
    try:
        yield server
    finally:
        server.close()
