"""Messages about incidents: mail through a real SMTP server on this machine, quiet hours, cooldown, and repeated attempts."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from email.policy import default

import pytest

from catchment.errors import ConfigError
from catchment.ledger import Incident
from catchment.runtime.home import Home
from deployments.health.announcing import AlertSettings, Announcer

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
OPEN = Incident(7, "source.unreachable", "source:mail", NOON, None, "no answer", "check its address", ())
OVER = replace(OPEN, closed_at=NOON + timedelta(minutes=5))


class SmtpServer(socketserver.ThreadingTCPServer):
    """Accepts mail as RFC 5321 demands, and keeps it. `refuses`: answers each connection with 421."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[Message] = []
        self.refuses = False

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Session(socketserver.StreamRequestHandler):
    server: SmtpServer

    def handle(self) -> None:
        if self.server.refuses:
            self.wfile.write(b"421 closed\r\n")
            return
        self.wfile.write(b"220 ready\r\n")
        while line := self.rfile.readline():
            match line.split()[0].upper():
                case b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = iter(self.rfile.readline, b".\r\n")
                    self.server.mails.append(message_from_bytes(b"".join(lines), policy=default))
                    self.wfile.write(b"250 kept\r\n")
                case b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                case _:
                    self.wfile.write(b"250 fine\r\n")


class Told:
    """An announcer with a clock that the test moves, and its notes."""

    def __init__(self, home: Home, server: SmtpServer) -> None:
        self.now, self.home, self.server = NOON.timestamp(), home, server
        self.notes: list[str] = []
        self.events: list[Incident] = []
        self.restart()

    def restart(self) -> None:
        self.announcer = Announcer(self.home, clock=lambda: self.now)
        self.announcer._note = lambda _incident, text: self.notes.append(text)
        self.announcer._channels["event"] = self._heard

    def _heard(self, incident: Incident) -> None:
        self.events.append(incident)

    def settings(self, **more: object) -> None:
        mail = {
            "host": "127.0.0.1",
            "port": self.server.port,
            "security": "none",
            "from": "me@a.org",
            "to": ["you@a.org"],
        }
        self.home.alerts_file.write_text(json.dumps({"mail": mail, **more}))

    def tell(self, *incidents: Incident, after: float = 0) -> list[str]:
        """Announce incidents, let time pass, and return the subjects of all mails so far."""
        for incident in incidents:
            self.announcer.announce(incident)
        self.announcer.send_due()
        self.now += after
        if after:
            self.announcer.send_due()
        return [str(mail["Subject"]) for mail in self.server.mails]


@pytest.fixture
def told(home: Home) -> Iterator[Told]:
    with SmtpServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told = Told(home, server)
        told.settings()
        yield told
        server.shutdown()


def test_start_and_end_are_told_by_mail(told: Told) -> None:
    assert told.tell(OPEN) == ["Catchment: mail: no answer"]
    assert told.tell(OVER)[1:] == ["Catchment: mail: solved: no answer"]
    mail = told.server.mails[0]
    assert (mail["From"], mail["To"]) == ("me@a.org", "you@a.org")
    text = str(mail.get_payload())
    assert "What helps: check its address" in text
    assert "catchment incidents show 7" in text
    assert told.notes == ["mail: sent (opened)", "mail: sent (closed)"]
    assert told.events == [OPEN, OVER]


def test_nobody_is_told_without_settings_but_programs_are(told: Told) -> None:
    told.home.alerts_file.unlink()
    assert told.tell(OPEN) == []
    assert told.events == [OPEN]


def test_incident_that_returns_soon_is_not_told_again(told: Told) -> None:
    again = replace(OPEN, id=8, opened_at=NOON + timedelta(minutes=4))
    told.tell(OPEN)
    assert len(told.tell(OVER, after=200)) == 2
    told.tell(again)
    assert len(told.tell(replace(again, closed_at=NOON + timedelta(minutes=9)))) == 2
    assert len(told.tell(replace(again, subject="source:other"))) == 3
    told.now += 301
    assert len(told.tell(replace(again, id=9, opened_at=NOON + timedelta(hours=1)))) == 4


def test_only_chosen_reasons_are_told(told: Told) -> None:
    told.settings(reasons=["disk.full"])
    assert told.tell(OPEN) == []
    assert len(told.tell(replace(OPEN, reason="disk.full"))) == 1


def test_quiet_hours_delay_what_is_still_open_afterwards(told: Told) -> None:
    told.settings(quiet=["11:00-13:00 UTC"])
    short = replace(OPEN, subject="source:short")
    assert told.tell(OPEN, short, replace(short, closed_at=NOON), after=1_800) == []
    assert told.tell(after=1_801) == ["Catchment: mail: no answer"]


def test_mail_that_cannot_be_sent_is_tried_again(told: Told) -> None:
    told.server.refuses = True
    assert told.tell(OPEN, after=16) == []
    assert told.notes == ["mail: not sent (SMTPConnectError); it is tried again"]
    told.server.refuses = False
    assert told.tell(after=20) == []
    assert told.tell(after=20) == ["Catchment: mail: no answer"]
    assert told.notes[1:] == ["mail: sent (opened)"]


def test_restart_repeats_no_start_and_loses_no_end(told: Told) -> None:
    assert len(told.tell(OPEN)) == 1
    told.restart()
    assert len(told.tell(after=3_600)) == 1
    told.restart()
    assert told.tell(OVER)[1:] == ["Catchment: mail: solved: no answer"]
    told.restart()
    assert len(told.tell(OVER)) == 2, "its end was sent"


def test_restart_continues_attempts_and_cooldown(told: Told) -> None:
    told.server.refuses = True
    other = replace(OPEN, id=8, subject="source:other")
    told.tell(OPEN, other)
    told.restart()
    told.tell(replace(other, closed_at=NOON))
    told.server.refuses = False
    told.restart()
    assert told.tell(after=20) == ["Catchment: mail: no answer"]
    told.tell(OVER)
    told.restart()
    assert len(told.tell(replace(OPEN, id=9, opened_at=NOON + timedelta(minutes=2)))) == 2
    told.now += 301
    assert len(told.tell(replace(OPEN, id=10, opened_at=NOON + timedelta(hours=1)))) == 3


def test_mail_is_given_up_after_a_day(told: Told) -> None:
    told.server.refuses = True
    told.tell(OPEN)
    for _ in range(200):
        told.tell(after=900)
    assert told.notes[-1] == "mail: not sent (SMTPConnectError); given up"
    assert told.announcer.send_due() == 3_600.0


def test_line_breaks_of_a_message_forge_no_header(told: Told) -> None:
    (subject,) = told.tell(replace(OPEN, message="no answer\r\nBcc: other@a.org"))
    assert subject == "Catchment: mail: no answer Bcc: other@a.org"
    assert told.server.mails[0]["Bcc"] is None


def test_background_thread_sends_at_once(home: Home) -> None:
    with SmtpServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told = Told(home, server)
        told.settings()
        sent = threading.Event()
        told.announcer.start(lambda _incident, _text: sent.set())
        told.announcer.announce(OPEN)
        assert sent.wait(10)
        assert len(server.mails) == 1
        server.shutdown()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mail: {host: a}", "from is missing"),
        ("quiet: [sometimes]", "quiet hours"),
        ("reasons: [disk.fill]", "unknown value"),
        ("mial: {}", "did you mean mail?"),
        ("objectives: {syncs: {target: 2}}", "objectives: syncs.target: must be from 0.5"),
        ("mail: {host: a, from: a@b, to: [c@d], password: secret}", "password"),
    ],
)
def test_error_in_the_settings_names_its_line(home: Home, text: str, problem: str) -> None:
    home.alerts_file.write_text(f"# mine\n{text}\n")
    with pytest.raises(ConfigError, match=r"alerts\.yaml line 2") as raised:
        AlertSettings.load(home)
    assert problem in str(raised.value)
    assert "secret" not in str(raised.value).replace("secret reference", "")


def test_error_in_the_settings_is_noted(told: Told) -> None:
    told.home.alerts_file.write_text("mial: {}")
    assert told.tell(OPEN) == []
    assert told.notes[0].startswith("alerts.yaml line 1")
