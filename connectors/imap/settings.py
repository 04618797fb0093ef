"""Settings of an IMAP source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from catchment.errors import BadInput
from catchment.runtime.addresses import is_local, is_loopback
from catchment.settings import FullPath, Policy, SecretReference, SourceSettings

_PORTS = {"tls": 993, "starttls": 143, "none": 143}


class ImapSettings(SourceSettings):
    """Settings of an `imap` source."""

    identity: ClassVar[tuple[str, ...]] = ("host", "port", "user")
    assistants: bool = Field(
        False, title="Assistants", description="Let assistants (`catchment mcp`) search and read this mail"
    )
    host: str = Field(
        title="Server", description="Name of the IMAP server, such as imap.example.org", pattern=r"^[^\s/@]+$"
    )
    user: str = Field(title="User", description="Login name; with most providers the full address", min_length=1)
    port: int | None = Field(None, title="Port", description="Default: 993, or 143 without TLS", ge=1, le=65_535)
    security: Literal["tls", "starttls", "none"] = Field(
        "tls", title="Encryption", description="tls, starttls, or none (only for a server on this machine)"
    )
    ca_file: FullPath | None = Field(
        None,
        title="Certificate authority",
        description="PEM file with the authority that signed the server's certificate",
    )
    password: SecretReference | None = Field(
        None,
        title="Password",
        description="Reference to the password: env:VARIABLE, file:PATH, keyring:S/U, block:NAME",
    )
    token: SecretReference | None = Field(
        None, title="Access token", description="Reference to an OAuth2 access token, instead of a password"
    )
    refresh_token: SecretReference | None = Field(
        None, title="Refresh token", description="Reference to an OAuth2 refresh token, to obtain access tokens"
    )
    client_id: str | None = Field(
        None, title="OAuth2 client", description="Client ID for which the refresh token was issued"
    )
    client_secret: SecretReference | None = Field(
        None, title="OAuth2 client secret", description="Reference to the client's secret, if it has one"
    )
    token_url: str | None = Field(None, title="OAuth2 address", description="Address of the token server (https)")
    include: tuple[str, ...] = Field(
        (),
        title="Include",
        description="Folders to include, such as INBOX, Archive, or Archive/* for those in it; none includes all",
    )
    exclude: tuple[str, ...] = Field((), title="Exclude", description="Folders to exclude, such as Lists/*")
    since: date | None = Field(
        None,
        title="Since",
        description="Leave out mail that arrived before this date, such as 2025-01-01",
        ge=date(1970, 1, 1),
    )
    max_folders: int = Field(
        5_000, title="Maximum folders", description="The sync fails if more folders are selected", ge=1, le=1_000_000
    )
    trash: bool = Field(False, title="Trash and spam", description="Include the trash and junk mail folders")
    attachments: bool = Field(True, title="Attachments", description="Read attached files, as separate documents")

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """Return the settings for `user@host` or `user@host:port`. The user name may contain an @."""
        user, _, server = location.rpartition("@")
        host, colon, port = server.rpartition(":") if not server.endswith("]") else (server, "", "")
        if not colon:
            host, port = server, ""
        if not user or not host or (colon and not port.isdecimal()):
            raise BadInput(f"{location!r}: not a mailbox; write it as user@host or user@host:port")
        return {"user": user, "host": host.strip("[]"), **({"port": int(port)} if port else {})}

    def policy(self, default: Policy) -> Policy:
        """Return the connector's policy with this source's overrides."""
        own = super().policy(default)
        # A message is kept whole, with its files.
        return own if self.attachments or self.keep_raw else own.model_copy(update={"keep_raw": False})

    @property
    def server_port(self) -> int:
        """The port to connect to."""
        return self.port or _PORTS[self.security]

    @property
    def uses_tokens(self) -> bool:
        """Whether the login uses OAuth2."""
        return self.password is None

    @model_validator(mode="after")
    def _safe(self) -> ImapSettings:
        if self.security == "none" and not is_loopback(self.host):
            raise ValueError("security none: only for a server on this machine; set it to tls or starttls")
        ways = [way for way in (self.password, self.token, self.refresh_token) if way is not None]
        if len(ways) != 1:
            raise ValueError(
                "set exactly one of password, token and refresh_token, as in --secret password=env:VARIABLE"
            )
        if self.refresh_token and not (self.client_id and self.token_url):
            raise ValueError("refresh_token requires client_id and token_url; see docs/mail.md")
        if self.token_url and not _is_protected(self.token_url):
            raise ValueError("token_url must start with https://")
        return self


def _is_protected(address: str) -> bool:
    return address.startswith("https://") or (address.startswith("http://") and is_local(address))
