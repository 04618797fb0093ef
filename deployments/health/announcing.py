"""Messages about incidents: a Prefect event for each, and mail and desktop notifications by the settings in `alerts.yaml`.

One thread sends them in turn. A failed message is repeated after growing pauses, and noted in the timeline of the incident.
The file `run/announcements.json` keeps the messages that wait, and which starts were sent, so that a restart continues.
"""

from __future__ import annotations

import shutil
import smtplib
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from catchment.errors import BadInput, CatchmentError, ConfigError, TryAgain, split_remedy
from catchment.ledger import Incident
from catchment.pacing.windows import blocked_until, parse
from catchment.runtime.home import Home
from catchment.runtime.reports import ProcessReport
from catchment.runtime.secret_references import resolve
from catchment.settings import SecretReference, Strict
from catchment.telemetry.incidents import ReasonCode
from catchment.telemetry.objectives import OBJECTIVES, Objective
from catchment.views.telemetry.objectives import objectives_in
from deployments.server.client import api, read_blocks_of
from deployments.server.running import require_running, running
from deployments.sources.prefect_file import complaint, outline

EVENT = "catchment.incident"
_SECONDS = 20.0
"""Time limit of one mail."""
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 900.0
_LAST_SECONDS = 86_400.0
"""Time after which no further attempt is made."""


def _window(text: str) -> str:
    try:
        parse(text)
    except BadInput as error:
        raise ValueError(str(error).replace("a blackout window", "quiet hours")) from None
    return text


class MailSettings(Strict):
    """The addresses of mail about incidents, and the server that accepts it."""

    host: str = Field(description="Name of the server that accepts the mail")
    port: int = Field(587, description="Its port", ge=1, le=65_535)
    security: Literal["starttls", "tls", "none"] = Field("starttls", description="starttls, tls or none")
    sender: str = Field(alias="from", description="Address of the sender", min_length=3)
    to: tuple[str, ...] = Field(description="Addresses that receive the mail", min_length=1)
    user: str | None = Field(None, description="Login name")
    password: SecretReference | None = Field(None, description="Reference to the password")


class AlertSettings(Strict):
    """The objectives; the incidents to send messages about, by which channels, and the quiet hours."""

    objectives: Annotated[tuple[Objective, ...], BeforeValidator(objectives_in)] = OBJECTIVES
    mail: MailSettings | None = None
    desktop: bool = Field(False, description="Show desktop notifications by notify-send")
    quiet: tuple[Annotated[str, AfterValidator(_window)], ...] = Field(
        (),
        description="Windows such as 22:00-07:00 without messages; incidents that are still open are sent afterwards",
    )
    cooldown: float = Field(
        300, description="Seconds between two messages of the same reason and subject", ge=0, le=604_800
    )
    reasons: tuple[ReasonCode, ...] = Field(tuple(ReasonCode), description="Reason codes to send; default: all")

    @classmethod
    def load(cls, home: Home) -> AlertSettings:
        """Read the file; the defaults without one. Raises ConfigError with the line and the remedy."""
        name = home.alerts_file.name
        try:
            file = outline(home.alerts_file.read_text(encoding="utf-8"), name)
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name}: not readable ({type(error).__name__}); check its owner and encoding") from error
        try:
            return cls.model_validate(file.data)
        except ValidationError as error:
            raise complaint(file, error, cls) from error


_Identity = tuple[str, str, datetime]


@dataclass(frozen=True, slots=True)
class _Delivery:
    """A message of one channel (event, mail or desktop) about an incident. `first`, `due`: times of the attempts."""

    channel: str
    incident: Incident
    first: float
    due: float
    pause: float = _FIRST_PAUSE


@dataclass(frozen=True, slots=True)
class _Announcements(ProcessReport):
    """What a restart must not forget: the fields of `Announcer`."""

    file: ClassVar = "announcements.json"
    waiting: tuple[_Delivery, ...] = ()
    sent: tuple[tuple[str, _Identity], ...] = ()
    announced: tuple[tuple[tuple[str, str], float], ...] = ()


class Announcer:
    """Sends messages about incidents. `announce` never blocks and never fails."""

    def __init__(self, home: Home, *, clock: Callable[[], float] = time.time) -> None:
        self._home, self._clock = home, clock
        self._note: Callable[[Incident, str], None] = lambda _incident, _text: None
        self._added = threading.Event()
        self._lock = threading.Lock()
        known = _Announcements.read(home) or _Announcements()
        # The clock may have been wrong.
        self._waiting = [replace(delivery, due=clock()) for delivery in known.waiting]
        self._sent = set(known.sent)
        """The open incidents with a sent start message, by channel."""
        self._announced = dict(known.announced)
        """Time of the last message about the start of an incident of a reason and subject."""
        self._channels = {"event": self._emit, "mail": self._mail, "desktop": self._notify}

    def start(self, note: Callable[[Incident, str], None]) -> None:
        """Send in the background. `note` receives the results, for the timeline of the incident."""
        self._note = note
        threading.Thread(target=self._run, daemon=True).start()

    def announce(self, incident: Incident) -> None:
        """Announce that an incident opened or closed."""
        channels = ["event"]
        try:
            settings = AlertSettings.load(self._home)
        except ConfigError as error:
            self._note(incident, str(error))
        else:
            if self._concerns(settings, incident):
                channels += [channel for channel in ("mail", "desktop") if getattr(settings, channel)]
        now = self._clock()
        with self._lock:
            if incident.closed_at is not None:
                # It closed before its start could be sent.
                self._waiting = [
                    each
                    for each in self._waiting
                    if each.channel == "event" or each.incident.identity != incident.identity
                ]
            self._waiting += [_Delivery(channel, incident, now, now) for channel in channels]
            self._save()
        self._added.set()

    def send_due(self) -> float:
        """Send the messages that are due, and return the seconds until the next attempt."""
        while True:
            with self._lock:
                delivery = min(self._waiting, key=lambda each: each.due, default=None)
            if delivery is None:
                return 3_600.0
            if (seconds := delivery.due - self._clock()) > 0:
                return seconds
            again = self._attempt(delivery)
            with self._lock:
                if delivery in self._waiting:
                    self._waiting.remove(delivery)
                    self._waiting += [again] if again else []
                self._save()

    def _run(self) -> None:
        while True:
            self._added.clear()
            self._added.wait(self.send_due())

    def _save(self) -> None:
        """Store what a restart must not forget. A full disk is ignored: it is an incident to send a message about."""
        _Announcements(tuple(self._waiting), tuple(self._sent), tuple(self._announced.items())).write(self._home)

    def _concerns(self, settings: AlertSettings, incident: Incident) -> bool:
        """Whether to send messages: of these reasons, and not again within the cooldown."""
        if incident.reason not in settings.reasons or incident.closed_at is not None:
            return incident.closed_at is not None
        key, now = (incident.reason, incident.subject), self._clock()
        with self._lock:
            recent = {each: at for each, at in self._announced.items() if 0 <= now - at < settings.cooldown}
            self._announced = {key: now} | recent
        return key not in recent

    def _attempt(self, delivery: _Delivery) -> _Delivery | None:
        """Send a message. Return the delivery of the next attempt, if there is one."""
        incident, channel, now = delivery.incident, delivery.channel, self._clock()
        start = channel, incident.identity
        try:
            if channel != "event":
                if incident.closed_at is not None and start not in self._sent:
                    return None
                quiet = blocked_until(
                    [*map(parse, AlertSettings.load(self._home).quiet)], datetime.fromtimestamp(now, UTC)
                )
                if quiet is not None:
                    return replace(delivery, due=quiet.timestamp())
            self._channels[channel](incident)
        except (CatchmentError, OSError, ValueError, smtplib.SMTPException, subprocess.SubprocessError) as error:
            # The text of an error may contain an address.
            problem = split_remedy(str(error))[0] if isinstance(error, CatchmentError) else type(error).__name__
            if now - delivery.first > _LAST_SECONDS:
                self._note(incident, f"{channel}: not sent ({problem}); given up")
                return None
            if delivery.pause == _FIRST_PAUSE:
                self._note(incident, f"{channel}: not sent ({problem}); it is tried again")
            return replace(delivery, due=now + delivery.pause, pause=min(2 * delivery.pause, _LONGEST_PAUSE))
        if channel != "event":
            with self._lock:
                (self._sent.add if incident.closed_at is None else self._sent.discard)(start)
            self._note(incident, f"{channel}: sent ({_verb(incident)})")
        return None

    def _emit(self, incident: Incident) -> None:
        """Emit an event with the reason code and the number, and no private data."""
        resource = {
            "prefect.resource.id": f"{EVENT}.{incident.id}",
            "prefect.resource.name": f"incident {incident.id}",
            "catchment.reason": incident.reason,
        }
        facts = {"reason": incident.reason, "number": incident.id}
        with api(require_running(self._home)) as client:
            client.emit(f"{EVENT}.{_verb(incident)}", resource, facts).raise_for_status()

    def _mail(self, incident: Incident) -> None:
        settings = AlertSettings.load(self._home).mail
        if settings is None:
            return
        message = EmailMessage()
        message["Subject"] = f"Catchment: {_title(incident)}"
        message["From"], message["To"] = settings.sender, ", ".join(settings.to)
        message["Date"], message["Message-ID"] = formatdate(localtime=True), make_msgid(domain="catchment.localhost")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(_text(incident))
        secret = None
        if settings.user and settings.password:
            if server := running(self._home):
                read_blocks_of(server)
            secret = resolve(settings.password)
        context = ssl.create_default_context() if settings.security != "none" else None
        with _connected(settings, context) as connection:
            if settings.security == "starttls":
                connection.starttls(context=context)
            if settings.user and secret:
                connection.login(settings.user, secret)
            connection.send_message(message)

    def _notify(self, incident: Incident) -> None:
        program = shutil.which("notify-send")
        if program is None:
            raise TryAgain("notify-send: not installed; on Debian: apt install libnotify-bin")
        words = [program, "--app-name=Catchment", "--", _title(incident), incident.remedy]
        subprocess.run(words, check=True, timeout=_SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _connected(settings: MailSettings, context: ssl.SSLContext | None) -> smtplib.SMTP:
    if settings.security == "tls":
        return smtplib.SMTP_SSL(settings.host, settings.port, timeout=_SECONDS, context=context)
    return smtplib.SMTP(settings.host, settings.port, timeout=_SECONDS)


def _verb(incident: Incident) -> str:
    return "opened" if incident.closed_at is None else "closed"


def _title(incident: Incident) -> str:
    return " ".join(f"{incident.about}: {'' if incident.closed_at is None else 'solved: '}{incident.message}".split())


def _text(incident: Incident) -> str:
    lines = [f"{_title(incident)}.", "", f"Since: {incident.opened_at.astimezone():%Y-%m-%d %H:%M}"]
    if incident.closed_at is None:
        lines.append(f"What helps: {incident.remedy}")
    else:
        lines.append(f"Until: {incident.closed_at.astimezone():%Y-%m-%d %H:%M}")
    lines.append(f"Reason code: {incident.reason}")
    if incident.id:
        lines.append(f"More: catchment incidents show {incident.id}")
    return "\n".join(lines) + "\n"
