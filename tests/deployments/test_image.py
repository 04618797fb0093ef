"""The image: its two files, and its command as pid 1 with a read-only disk, another user and its own network."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml

from tests.waiting import until

PROJECT = Path(__file__).parents[2]
IMAGE_USER = "10001"
_IS_READABLE = all(folder.stat().st_mode & 0o001 for folder in (PROJECT, *PROJECT.parents))
USER = IMAGE_USER if _IS_READABLE else "0"
"""The user of the image, or root without its rights if only that can read this project."""
_SET_UP = """
ip link set lo up
ip address add 192.0.2.7/24 dev lo
mount --bind "$VOLUME" /mnt
mount --bind "$PROJECT" /media
mount -t tmpfs tmpfs /tmp
mkdir -p "$PROJECT"
mount --bind /media "$PROJECT"
mount -o remount,bind,ro /
exec "$@"
"""


class Instruction(NamedTuple):
    """A line of a Dockerfile, with its continuation lines."""

    name: str
    arguments: str

    @property
    def words(self) -> list[str]:
        """The arguments of an instruction in exec form."""
        found: list[str] = json.loads(self.arguments[self.arguments.index("[") :])
        return found


def dockerfile() -> list[Instruction]:
    lines = (PROJECT / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    split = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return [Instruction(name, arguments) for name, arguments in split]


def only(name: str) -> Instruction:
    [found] = [each for each in dockerfile() if each.name == name]
    return found


def compose() -> Any:
    return yaml.safe_load((PROJECT / "compose.yaml").read_text())


def test_image_holds_the_wheel_and_one_volume_and_is_not_root() -> None:
    found = dockerfile()
    assert {each.arguments.partition(" AS ")[0] for each in found if each.name == "FROM"} == {"python:3.11-slim"}
    copied = [each.arguments.split()[:-1] for each in found if each.name == "COPY"]
    assert copied == [["dist/*.whl", "dist/constraints.txt"], ["--from=build", "/opt/catchment"]]
    ignored = (PROJECT / ".dockerignore").read_text().split()
    assert ignored == ["*", "!dist/*.whl", "!dist/constraints.txt"]
    assert (only("USER").arguments, only("VOLUME").arguments) == (IMAGE_USER, "/data")
    assert only("HEALTHCHECK").words == ["catchment", "check"]
    assert not any(host in (PROJECT / "Dockerfile").read_text() for host in ("://", "index-url"))


def test_compose_publishes_to_this_machine_only_and_leaves_time_to_stop() -> None:
    found = compose()
    assert found.keys() == {"services", "volumes"}
    [(name, service)] = found["services"].items()
    assert service.keys() == {
        *("build", "image", "restart", "ports", "volumes", "stop_grace_period"),
        *("read_only", "tmpfs", "cap_drop", "security_opt"),
    }
    [port] = service["ports"]
    assert port == f"127.0.0.1:{only('EXPOSE').arguments}:{only('EXPOSE').arguments}"
    assert only("CMD").words[-1] == f"localhost:{only('EXPOSE').arguments}"
    assert [each.partition(":")[2] for each in service["volumes"]] == [only("VOLUME").arguments]
    assert found["volumes"].keys() == {service["volumes"][0].partition(":")[0]}
    assert int(service["stop_grace_period"].removesuffix("s")) >= 45
    assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (name, service["read_only"], service["tmpfs"]) == ("catchment", True, ["/tmp"])


class Container:
    """The image's command as pid 1 in separate namespaces. The volume is at /mnt inside."""

    def __init__(self, volume: Path) -> None:
        self.volume = volume
        self.log = volume.with_name("log")
        environment = {"VOLUME": str(volume), "PROJECT": str(PROJECT), "PATH": os.environ["PATH"]}
        inside = (
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--net",
            "--kill-child",
            "sh",
            "-ec",
            _SET_UP,
        )
        command = [*only("ENTRYPOINT").words, *only("CMD").words]
        with self.log.open("wb") as log:
            self.outside = subprocess.Popen(
                [*inside, "sh", *self._as_user(command)], env=environment, stdout=log, stderr=log
            )
        until(lambda: b"Catchment is running" in self.log.read_bytes() or self.outside.poll() is not None)
        assert self.outside.poll() is None, self.log.read_text()
        [self.first] = psutil.Process(self.outside.pid).children()

    def _as_user(self, command: list[str]) -> list[str]:
        rights = (
            "--reuid",
            USER,
            "--regid",
            USER,
            "--clear-groups",
            "--no-new-privs",
            "--bounding-set=-all",
        )
        path = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
        return ["setpriv", *rights, "env", "-i", path, "HOME=/tmp", "CATCHMENT_HOME=/mnt", *command]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as `docker exec` does."""
        enter = ["nsenter", "--target", str(self.first.pid), "--mount", "--pid", "--net", "--wd=/"]
        return subprocess.run([*enter, *self._as_user([*command])], capture_output=True, text=True, check=False)

    def status_of(self, host: str, server: str = "192.0.2.7:4210", path: str = "/signin") -> str:
        """The status of a request to the address of the container's network, or to another one inside."""
        program = (
            f"import http.client; c = http.client.HTTPConnection('{server}'); "
            f"c.request('GET', '{path}', headers={{'Host': '{host}'}}); print(c.getresponse().status)"
        )
        return self.run("python", "-c", program).stdout.strip()


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        volume = Path(folder) / "volume"
        volume.mkdir()
        os.chown(volume, int(USER), int(USER))
        container = Container(volume)
        yield container
        container.outside.kill()
        container.outside.wait()


@pytest.mark.server
@pytest.mark.long
def test_image_finds_a_note_is_healthy_and_stops_in_time(container: Container) -> None:
    vault = str(PROJECT / "examples" / "vault")
    for words in (
        ["add", "obsidian", vault, "--name", "vault"],
        ["sync", "vault", "--wait"],
        ["search", "quorum"],
        only("HEALTHCHECK").words[1:],
    ):
        done = container.run("catchment", *words)
        assert (done.returncode, bool(done.stdout)) == (0, True), (words, done.stdout, done.stderr)
    until(lambda: container.status_of("localhost:4210"), lambda status: status == "200")
    assert [container.status_of(host) for host in ("192.0.2.7:4210", "evil.example", "127.0.0.1:4210")] == [
        "421",
        "421",
        "200",
    ]
    assert container.status_of("127.0.0.1:4200", "127.0.0.1:4200", "/v2/") == "200", "Prefect's UI is there, inside"
    assert container.status_of("127.0.0.1:4200", "192.0.2.7:4200", "/api/health") == "", "and only inside"
    link = container.run("catchment", "web", "--no-browser").stdout
    assert link.startswith("http://localhost:4210/signin?key=")
    assert "listens on 0.0.0.0" in container.run("catchment", "status").stdout

    outside = subprocess.run(
        [Path(sys.executable).parent / "catchment", "status"],
        env={**os.environ, "CATCHMENT_HOME": str(container.volume)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "runs in another container" in outside.stdout

    container.run("sh", "-c", "sleep 0.1 &")
    until(lambda: not any(each.status() == psutil.STATUS_ZOMBIE for each in container.first.children()))

    os.kill(container.first.pid, signal.SIGTERM)
    grace = float(compose()["services"]["catchment"]["stop_grace_period"].removesuffix("s"))
    assert container.outside.wait(grace) == 0, shlex.quote(container.log.read_text())
