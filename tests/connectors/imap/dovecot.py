"""A real mail server for the tests: Dovecot on a free loopback port."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import psutil
import pytest
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError

from tests.waiting import PATIENCE

USER, PASSWORD = "ada", "correct horse"
_KEY = b"a key that only the tests know, and no one else"
_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = {ssl}
{certificates}
disable_plaintext_auth = no
auth_mechanisms = plain login xoauth2
auth_failure_delay = 0
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
first_valid_gid = 1
mail_max_userip_connections = 100
mailbox_idle_check_interval = 1 secs
imap_capability = {capability}
service imap {{
  service_count = 500
}}
service imap-login {{
  service_count = 0
  inet_listener imap {{
    address = 127.0.0.1
    port = {port}
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {tls_port}
  }}
}}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
passdb {{
  driver = passwd-file
  mechanisms = plain login
  args = scheme=PLAIN username_format=%u {folder}/users
}}
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {folder}/oauth2
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Trash {{
    special_use = \\Trash
  }}
  mailbox Junk {{
    special_use = \\Junk
  }}
  mailbox Sent {{
    special_use = \\Sent
  }}
  mailbox "[Gmail]/All Mail" {{
    special_use = \\All
  }}
}}
"""
_TOKENS = """
introspection_mode = local
local_validation_key_dict = fs:posix:prefix={folder}/keys/
username_attribute = sub
"""


@dataclass
class Dovecot:
    """A server. `stop` and `start` may alternate; the mailboxes are kept."""

    folder: Path
    port: int
    tls_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def ca_file(self) -> Path:
        return self.folder / "authority.pem"

    def start(self) -> None:
        """Start the server and wait until it listens; retry while the port is still in use by a killed process."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if self.process is None or self.process.poll() is not None:
                self.process = self._begun()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "said").read_text()
                time.sleep(0.02)

    def _begun(self) -> subprocess.Popen[bytes]:
        with (self.folder / "said").open("wb") as said:
            return subprocess.Popen(
                ["dovecot", "-F", "-c", str(self.folder / "dovecot.conf")],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={"PATH": "/usr/sbin:/usr/bin:/bin"},
            )

    def stop(self) -> None:
        """Kill the server and all its connections; may be called again."""
        if self.process is None or self.process.poll() is not None:
            return
        served = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait(PATIENCE)
        for process in served:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(served, timeout=20)

    def clear(self) -> None:
        """Delete all messages and folders of the user; start the server if it is stopped."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        with self.person() as client:
            client.folder_encode = False
            for _, _, name in reversed(client.list_folders()):
                # Parents of other folders may be listed without existing.
                with contextlib.suppress(IMAPClientError):
                    client.delete_folder(name)
            client.select_folder("INBOX")
            if uids := client.search():
                client.delete_messages(uids)
                client.expunge(uids)

    @contextlib.contextmanager
    def person(self) -> Iterator[IMAPClient]:
        """Return a mail client that is logged in as the user."""
        with IMAPClient("127.0.0.1", self.port, ssl=False, timeout=20) as client:
            client.login(USER, PASSWORD)
            yield client

    def renumber(self, folder: str) -> None:
        """Make the server assign new UIDs to the messages of a folder, as after a migration."""
        home = self.folder / "mail" / USER
        mailbox = home if folder == "INBOX" else home / f".{folder.replace('/', '.')}"
        before = self._uid_validity(folder)
        # A session that had the folder open can write its old numbers back.
        while self._uid_validity(folder) == before:
            for file in mailbox.glob("dovecot*"):
                if file.is_file():
                    file.unlink(missing_ok=True)
            # UIDVALIDITY is a time in seconds and must differ.
            (home / "dovecot-uidvalidity").unlink(missing_ok=True)
            for file in home.glob("dovecot-uidvalidity.*"):
                number = int(file.suffix[1:], 16)
                file.rename(file.with_suffix(f".{number + 1000:08x}"))

    def _uid_validity(self, folder: str) -> int:
        with self.person() as client:
            return int(client.folder_status(folder, ["UIDVALIDITY"])[b"UIDVALIDITY"])


def token(user: str = USER, seconds: int = 600) -> str:
    """Return an access token that the server accepts for `seconds`."""

    def part(value: dict[str, object]) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    now = int(time.time())
    said = part({"alg": "HS256", "typ": "JWT"}) + b"." + part({"sub": user, "iat": now - 5, "exp": now + seconds})
    signed = base64.urlsafe_b64encode(hmac.digest(_KEY, said, hashlib.sha256)).rstrip(b"=")
    return (said + b"." + signed).decode()


def message(
    number: int, subject: str = "", text: str = "", files: dict[str, bytes] | None = None, answers: int | None = None
) -> bytes:
    """Return a message, optionally with attachments and as a reply to another message."""
    made = EmailMessage()
    made["From"] = "Grace Hopper <grace@example.org>"
    made["To"] = "Ada <ada@example.org>"
    made["Subject"] = subject or f"Message {number}"
    made["Date"] = f"Mon, 02 Mar 2026 10:{number % 60:02}:00 +0000"
    made["Message-ID"] = f"<{number}@example.org>"
    if answers is not None:
        made["References"] = f"<{answers}@example.org>"
    made.set_content(text or f"The text of message {number}.\n")
    for name, data in (files or {}).items():
        kind = ("text", "plain") if name.endswith(".txt") else ("application", "octet-stream")
        made.add_attachment(data, maintype=kind[0], subtype=kind[1], filename=name)
    return made.as_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def serving(capability: str = "") -> Iterator[Dovecot]:
    """Run a server until the generator is closed. `capability`: the only capabilities to announce; default: all.

    Its folder is not one of pytest's, which are closed to other users: Dovecot's processes run as other users.
    """
    if shutil.which("dovecot", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None or os.geteuid() != 0:
        assert not os.environ.get("CATCHMENT_CI"), "needs dovecot-imapd and root"
        pytest.skip("needs Dovecot (apt install dovecot-imapd) and root to start it")
    with tempfile.TemporaryDirectory(prefix="dovecot-", ignore_cleanup_errors=True) as name:
        server = _configured(Path(name), capability)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _configured(folder: Path, capability: str) -> Dovecot:
    folder.chmod(0o755)
    port, tls_port = _free_port(), _free_port()
    (folder / "mail").mkdir()
    (folder / "run").mkdir()
    (folder / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\nzoe:{{PLAIN}}pässwörd\n", encoding="utf-8")
    key = folder / "keys" / "default" / "HS256"
    key.mkdir(parents=True)
    (key / "default").write_bytes(base64.b64encode(_KEY))
    (folder / "oauth2").write_text(_TOKENS.format(folder=folder))
    shutil.chown(folder / "mail", "mail", "mail")
    _certify(folder)
    certificates = f"ssl_cert = <{folder}/server.pem\nssl_key = <{folder}/server.key\nssl_min_protocol = TLSv1.2"
    config = _CONFIG.format(
        folder=folder, port=port, tls_port=tls_port, ssl="yes", certificates=certificates, capability=capability
    )
    (folder / "dovecot.conf").write_text(config if capability else config.replace("imap_capability = \n", ""))
    return Dovecot(folder, port, tls_port)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _certify(folder: Path) -> None:
    """Create an authority, and a certificate for `localhost` signed by it."""
    from tests.connectors.imap.certificates import authority, certificate

    made = authority("Authority of the tests")
    (folder / "authority.pem").write_bytes(made.pem)
    issued = certificate(made, "localhost")
    (folder / "server.pem").write_bytes(issued.pem)
    (folder / "server.key").write_bytes(issued.key_pem)
    (folder / "server.key").chmod(0o600)
