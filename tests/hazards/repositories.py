"""Hazards of repositories and hosts: rewritten history, renamed branches, damaged packs, revoked tokens, rate limits.

Files are served by `git http-backend`, discussions by a fake GitHub API behind a proxy that injects faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.person import Person, upright
from tests.connectors.github.git_host import GitHost, hosting
from tests.connectors.github.proxy import Exchange, Proxy
from tests.connectors.github.repository import Repository
from tests.connectors.github.server import GitHubServer, Repo, serving_hub
from tests.hazards.catchment import Watched, documents, held
from tests.hazards.folders import few, many, note, on_disk, write
from tests.hazards.model import Area, Hazard, Truth, Verdict, judge
from tests.waiting import until

_SOON = 60
_TOO_FAST = {"message": "You have exceeded a secondary rate limit"}


@dataclass(frozen=True)
class Host:
    """A user with a running system, a host of repositories, and a host of discussions."""

    person: Person
    git: GitHost
    hub: GitHubServer
    proxy: Proxy
    folder: Path

    def clone(self, name: str, make: Callable[[Path], None] = few) -> Clone:
        """Create a repository at the host and a synced source of its files."""
        work = Repository.made(self.folder / name)
        make(work.path)
        work.commit()
        self.git.publish(f"ada/{name}", work)
        token = self._token(name)
        self._add(name, self.git.address, "include=[code]", token)
        return Clone(name, self.person, work)

    def discussions(self, name: str) -> Discussions:
        """Create a repository with discussions and a synced source of them."""
        repo = self.hub.repo(f"ada/{name}")
        for number in range(4):
            repo.comment(repo.open(f"Issue {number}", note(f"issue{number}")), note(f"comment{number}"))
        token = self._token(name)
        self._add(name, self.proxy.address, "include=[issues, pulls, releases]", token)
        return Discussions(name, self.person, repo, token)

    @contextmanager
    def harm(self, harm: Callable[[Exchange], None]) -> Iterator[None]:
        """Disturb every response of the API within the block."""
        self.proxy.harm = harm
        try:
            yield
        finally:
            self.proxy.harm = None

    def _token(self, name: str) -> Path:
        """Return a token unique to the source, so that host limits of one login affect no other source."""
        file = self.folder / f"{name}.token"
        file.touch(mode=0o600)
        file.write_text(f"token-of-{name}")
        self.hub.tokens[f"token-of-{name}"] = "ada"
        return file

    def _add(self, name: str, address: str, include: str, token: Path) -> None:
        where = ["github", f"{address}/ada/{name}", "--name", name, "--set", include, "--consent"]
        self.person("add", *where, "--secret", f"token=file:{token}").ok()
        self.person.sync(name)


@dataclass(frozen=True)
class Clone(Watched):
    """A source of the files of a repository."""

    work: Repository

    def seen(self, noted: Verdict | None = None, truth: Truth | None = None) -> Verdict:
        """Compare the library with the repository; return the problems, including those noted before."""
        has = held(self.person, self.name, lambda locator, _title: locator.partition(":")[2])
        return judge(on_disk(self.work.path) if truth is None else truth, has, noted)

    def fails(self) -> Verdict:
        """Check that a sync fails and leaves the library unchanged; return the problems."""
        before = on_disk(self.work.path)
        write(self.work.path, "later.md", note("later.md"))
        self.work.commit()
        verdict = Verdict()
        verdict.expect(self.sync() != 0, "the sync did not fail")
        return self.seen(verdict, before)


@dataclass(frozen=True)
class Discussions(Watched):
    """A source of the discussions of a repository."""

    repo: Repo
    token: Path

    def seen(self, noted: Verdict | None = None) -> Verdict:
        """Compare the library with the discussions; return the problems, including those noted before."""
        truth = {f"#{number}": issue["body"].strip() for number, issue in self.repo.issues.items()}
        for number, comment in self.repo.comments.items():
            truth[f"#{comment['issue_url'].rpartition('/')[2]}/comment/{number}"] = comment["body"].strip()
        has = held(self.person, self.name, lambda locator, _title: locator[locator.index("#") :])
        return judge(truth, has, noted)


@contextmanager
def host(folder: Path) -> Iterator[Host]:
    """Yield both hosts and a user with a running system."""
    (folder / "git").mkdir(parents=True)
    with serving_hub() as hub, hosting(folder / "git") as git:
        proxy = Proxy(hub.port)
        try:
            with upright(Person(folder / "home")) as person:
                yield Host(person, git, hub, proxy, folder)
        finally:
            proxy.close()


def history_is_rewritten(host: Host) -> Verdict:
    clone = host.clone("rewritten")
    clone.work.git("checkout", "--quiet", "--orphan", "anew")
    write(clone.work.path, "bees.md", note("bees.md", 2))
    (clone.work.path / "weir.md").unlink()
    clone.work.commit()
    clone.work.git("branch", "--force", "--move", "anew", "main")
    clone.work.git("reflog", "expire", "--expire=now", "--all")
    clone.work.git("gc", "--quiet", "--prune=now")
    verdict = Verdict()
    verdict.expect(clone.sync() == 0, "the sync failed")
    return clone.seen(verdict)


def the_branch_is_renamed(host: Host) -> Verdict:
    clone = host.clone("branch")
    before = documents(host.person, clone.name)
    clone.work.git("branch", "--move", "main", "trunk")
    verdict = Verdict()
    verdict.expect(clone.sync() == 0, "the sync failed")
    verdict.expect(documents(host.person, clone.name) == before, "its documents are others")
    return clone.seen(verdict)


def it_is_emptied(host: Host) -> Verdict:
    clone = host.clone("emptied", many)
    clone.work.git("rm", "--quiet", "-r", ".")
    clone.work.commit()
    verdict = Verdict()
    verdict.expect(clone.sync() == 0, "the sync failed")
    return clone.seen(verdict)


def another_takes_its_place(host: Host) -> Verdict:
    clone = host.clone("replaced", many)
    before = on_disk(clone.work.path)
    host.git.withdraw("ada/replaced")
    other = Repository.made(host.folder / "another")
    write(other.path, "other.md", note("other.md"))
    other.commit()
    host.git.publish("ada/replaced", other)
    clone.sync()
    return clone.seen(truth=before | on_disk(other.path))


def forty_are_renamed(host: Host) -> Verdict:
    clone = host.clone("renamed", many)
    before = documents(host.person, clone.name)
    clone.work.git("mv", "Log", "Diary")
    verdict = Verdict()
    clone.work.commit()
    verdict.expect(clone.sync() == 0, "the sync failed")
    verdict.expect(documents(host.person, clone.name) == before, "its documents are others")
    return clone.seen(verdict)


def links_lead_out(host: Host) -> Verdict:
    clone = host.clone("links")
    write(host.folder / "outside", "secret.md", note("secret.md"))
    (clone.work.path / "out.md").symlink_to(host.folder / "outside" / "secret.md")
    (clone.work.path / "Out").symlink_to(host.folder / "outside")
    clone.work.commit()
    clone.sync()
    has = held(host.person, clone.name, lambda locator, _title: locator)
    verdict = Verdict()
    verdict.expect(not any("secret" in text for texts in has.texts.values() for text in texts), "it was followed")
    return clone.seen(verdict, {name: text for name, text in on_disk(clone.work.path).items() if "Out/" not in name})


def a_pack_is_cut(host: Host) -> Verdict:
    clone = host.clone("cut", many)
    host.git.cut_after = 200
    try:
        failed = clone.fails()
    finally:
        host.git.cut_after = None
    clone.recovers(failed)
    return clone.seen(failed)


def it_is_gone(host: Host) -> Verdict:
    clone = host.clone("gone")
    host.git.withdraw("ada/gone")
    failed = clone.fails()
    host.git.publish("ada/gone", clone.work)
    clone.recovers(failed)
    return clone.seen(failed)


def the_token_of_git_is_revoked(host: Host) -> Verdict:
    clone = host.clone("locked")
    host.git.token = "another"
    try:
        failed = clone.fails()
        failed.expect(clone.state() == "held", f"the source is {clone.state()}, and not held")
    finally:
        host.git.token = None
    clone.recovers(failed)
    return clone.seen(failed)


def too_fast_again_and_again(host: Host) -> Verdict:
    source = host.discussions("storm")
    source.repo.open("Later", note("later"))
    left = [3]

    def storm(exchange: Exchange) -> None:
        if left[0]:
            left[0] -= 1
            exchange.respond(403, _TOO_FAST, Retry_After="1")

    with host.harm(storm):
        verdict = Verdict()
        code = source.sync()
        verdict.expect(code == 0, f"ended with {code}")
        until(lambda: (left[0], source.seen().right), lambda now: now == (0, True), seconds=_SOON, must=False)
    verdict.expect(source.state() == "active", f"the source is {source.state()}")
    verdict.expect("FAILED" not in source.person.states_of(source.name), "a run failed")
    return source.seen(verdict)


def answers_are_cut(host: Host) -> Verdict:
    source = host.discussions("ragged")
    source.repo.comment(1, note("later"))
    with host.harm(lambda exchange: exchange.cut(after=20) if exchange.number % 3 else None):
        source.sync()
    verdict = Verdict()
    source.recovers(verdict)
    return source.seen(verdict)


def a_login_page_stands_between(host: Host) -> Verdict:
    source = host.discussions("cafe")
    with host.harm(lambda exchange: exchange.respond(200, b"<html>Welcome to the cafe; please log in</html>")):
        code = source.sync()
        verdict = source.seen()
    verdict.expect(code != 0, "the sync did not fail")
    source.recovers(verdict)
    return source.seen(verdict)


def it_is_called_something_else(host: Host) -> Verdict:
    source = host.discussions("old")
    before = documents(host.person, source.name)
    source.repo.server.rename("ada/old", "ada/new")
    verdict = Verdict()
    verdict.expect(source.sync() == 0, "the sync failed")
    verdict.expect(documents(host.person, source.name) == before, "its documents are others")
    return source.seen(verdict)


def its_name_is_taken(host: Host) -> Verdict:
    source = host.discussions("taken")
    source.repo.server.rename("ada/taken", "ada/first")
    source.repo.server.repo("ada/taken").open("Another", note("another"))
    verdict = Verdict()
    verdict.expect(source.sync() == 0, "the sync failed")
    return source.seen(verdict)


def an_issue_is_deleted(host: Host) -> Verdict:
    source = host.discussions("fewer")
    source.repo.delete(2)
    verdict = Verdict()
    verdict.expect(source.person("sync", source.name, "--deep", "--wait").code == 0, "the sync failed")
    return source.seen(verdict)


def the_token_is_revoked(host: Host) -> Verdict:
    source = host.discussions("revoked")
    host.hub.tokens.pop(source.token.read_text())
    verdict = Verdict()
    verdict.expect(source.sync() != 0, "the sync did not fail")
    asked = len(host.proxy.paths)
    source.sync()
    verdict.expect(source.state() == "held", f"the source is {source.state()}, and not held")
    verdict.expect(len(host.proxy.paths) == asked, "the host was asked again")
    host.hub.tokens[source.token.read_text()] = "ada"
    source.recovers(verdict)
    return source.seen(verdict)


FILES = Area(
    "repositories",
    host,
    (
        Hazard("history is rewritten", "the current files", history_is_rewritten),
        Hazard("the default branch is renamed", "the same documents", the_branch_is_renamed),
        Hazard("a commit deletes all files", "no files; undo restores them", it_is_emptied),
        Hazard("another repository takes its place", "deletions held for a decision", another_takes_its_place),
        Hazard("a folder of forty files is renamed", "the same documents", forty_are_renamed),
        Hazard("links lead out of a repository", "no file from outside", links_lead_out),
        Hazard("a pack is cut", "no loss", a_pack_is_cut),
        Hazard("a repository is missing", "no deletion", it_is_gone),
        Hazard("a token is revoked at git", "held; no deletion", the_token_of_git_is_revoked),
    ),
)
DISCUSSIONS = Area(
    "discussions",
    host,
    (
        Hazard("three rate-limit responses", "waits, then continues", too_fast_again_and_again),
        Hazard("responses are cut", "each document once", answers_are_cut),
        Hazard("a login page instead of the API", "no deletion", a_login_page_stands_between),
        Hazard("a repository is renamed", "the same documents", it_is_called_something_else),
        Hazard("another repository takes its name", "deletions held for a decision", its_name_is_taken),
        Hazard("an issue is deleted", "removed by a deep sync", an_issue_is_deleted),
        Hazard("a token is revoked at the API", "one attempt, then held", the_token_is_revoked),
    ),
)
