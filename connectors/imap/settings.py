"""What a person says of a mailbox that is to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from catchment.errors import BadInput
from catchment.runtime.secret_references import SecretReference
from catchment.settings import FullPath, SourceSettings
from connectors.loopback import is_loopback

_PORTS = {"tls": 993, "starttls": 143, "none": 143}


class ImapSettings(SourceSettings):
    """The settings of a source of kind `imap`."""

    host: str = Field(
        title="Server", description="The name of the IMAP server, such as imap.example.org", pattern=r"^[^\s/@]+$"
    )
    user: str = Field(title="User", description="The login name; with most providers the whole address", min_length=1)
    port: int | None = Field(None, title="Port", description="993 if not given, 143 without TLS", ge=1, le=65_535)
    security: Literal["tls", "starttls", "none"] = Field(
        "tls", title="Encryption", description="tls, starttls, or none: only for a server on this machine"
    )
    ca_file: FullPath | None = Field(
        None, title="Certificate authority", description="A PEM file that the server's certificate is checked against"
    )
    password: SecretReference | None = Field(
        None,
        title="Password",
        description="Where the password is kept: env:VARIABLE, file:PATH, keyring:S/U, block:NAME",
    )
    token: SecretReference | None = Field(
        None, title="Access token", description="Where an OAuth2 access token is kept, in place of a password"
    )
    refresh_token: SecretReference | None = Field(
        None, title="Refresh token", description="Where an OAuth2 refresh token is kept; access tokens are made of it"
    )
    client_id: str | None = Field(None, title="OAuth2 client", description="The client that the refresh token is for")
    client_secret: SecretReference | None = Field(
        None, title="OAuth2 client secret", description="Where the client's secret is kept, if it has one"
    )
    token_url: str | None = Field(
        None, title="OAuth2 address", description="Where access tokens are given, as an https address"
    )
    include: tuple[str, ...] = Field(
        (), title="Include", description="The folders that are wanted, such as INBOX or Archive/*; none means all"
    )
    exclude: tuple[str, ...] = Field((), title="Exclude", description="Folders that are not wanted, such as Lists/*")
    max_folders: int = Field(
        5_000, title="Most folders", description="With more wanted folders than this the sync fails", ge=1, le=1_000_000
    )
    trash: bool = Field(False, title="Trash and spam", description="Read also what is in the trash and in junk mail")
    attachments: bool = Field(True, title="Attachments", description="Read what is attached, as documents of its own")

    @classmethod
    def located(cls, location: str) -> Mapping[str, Any]:
        """`user@host` or `user@host:port`, where the user may hold an @ too."""
        user, _, server = location.rpartition("@")
        host, colon, port = server.rpartition(":") if not server.endswith("]") else (server, "", "")
        if not colon:
            host, port = server, ""
        if not user or not host or (colon and not port.isdecimal()):
            raise BadInput(f"{location!r} is no mailbox; write it as user@host or user@host:port")
        return {"user": user, "host": host.strip("[]"), **({"port": int(port)} if port else {})}

    @property
    def server_port(self) -> int:
        """The port that is asked."""
        return self.port or _PORTS[self.security]

    @property
    def uses_tokens(self) -> bool:
        """Whether the login is by OAuth2."""
        return self.password is None

    @model_validator(mode="after")
    def _safe(self) -> ImapSettings:
        if self.security == "none" and not is_loopback(self.host):
            raise ValueError("a password is never sent unencrypted to another machine; use security tls or starttls")
        ways = [way for way in (self.password, self.token, self.refresh_token) if way is not None]
        if len(ways) != 1:
            raise ValueError("give one of password, token and refresh_token, such as --secret password=env:VARIABLE")
        if self.refresh_token and not (self.client_id and self.token_url):
            raise ValueError("a refresh_token needs client_id and token_url; see docs/imap.md")
        if self.token_url and not self.token_url.startswith("https://") and not _on_loopback(self.token_url):
            raise ValueError("token_url must begin with https://")
        return self


def _on_loopback(address: str) -> bool:
    scheme, _, rest = address.partition("://")
    return scheme == "http" and is_loopback(rest.partition("/")[0].rpartition(":")[0])
