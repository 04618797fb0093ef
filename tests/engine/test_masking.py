"""Secrets in content are masked, and nothing else is."""

from __future__ import annotations

import random
import string
from collections import Counter
from pathlib import Path

import pytest

from catchment.content.normalize import normalize
from catchment.content.secret_masking import RULES, mask, masked
from catchment.model import Document, RawContent

_LETTERS = string.ascii_letters + string.digits
_lot = random.Random(7)


def _drawn(number: int, letters: str = _LETTERS) -> str:
    """What nobody's secret is: drawn here, so that no file of ours holds one."""
    return "".join(_lot.choices(letters, k=number))


_HEX, _UPPER = "0123456789abcdef", string.ascii_uppercase + string.digits
_BODY = "\n".join(_drawn(64) for _ in range(4))
_SECRETS = {
    "GitHub token": [f"ghp_{_drawn(36)}", f"ghs_{_drawn(36)}", f"github_pat_{_drawn(22)}_{_drawn(59)}"],
    "GitLab token": [f"glpat-{_drawn(20)}"],
    "AWS key id": [f"AKIA{_drawn(16, _UPPER)}"],
    "Slack token": [f"xoxb-{_drawn(12, string.digits)}-{_drawn(24)}"],
    "Stripe key": [f"sk_live_{_drawn(24)}"],
    "Anthropic key": [f"sk-ant-api03-{_drawn(80)}"],
    "OpenAI key": [f"sk-proj-7{_drawn(60)}"],
    "Google key": [f"AIza{_drawn(35)}"],
    "npm token": [f"npm_{_drawn(36)}"],
    "PyPI token": [f"pypi-AgEIcHlwaS5vcmc{_drawn(80)}"],
    "SendGrid key": [f"SG.{_drawn(22)}.{_drawn(43)}"],
    "DigitalOcean token": [f"dop_v1_{_drawn(64, _HEX)}"],
    "Vault token": [f"hvs.{_drawn(40)}"],
    "Hugging Face token": [f"hf_{_drawn(34)}"],
    "Telegram token": [f"123456789:AA{_drawn(33)}"],
    "JSON web token": [f"eyJ{_drawn(30)}.eyJ{_drawn(60)}.{_drawn(43)}"],
}
_ONLY_IN_PART = {
    "private key": [
        (f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n-----END RSA PRIVATE KEY-----", f"\n{_BODY}\n"),
        (f"-----BEGIN OPENSSH PRIVATE KEY-----\n{_BODY}\n", f"\n{_BODY}\n"),
        (f"---- BEGIN SSH2 PRIVATE KEY ----\n{_BODY}\n---- END SSH2 PRIVATE KEY ----", f"\n{_BODY}\n"),
        (f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 2\n{_BODY}\nPrivate-MAC: 00aa", f"{_BODY}\n"),
        *(
            (f"-----BEGIN {kind}-----\n{head}\n\n{body}\n-----END {kind}-----", f"\n{head}\n\n{body}\n")
            for kind, head, body in (
                ("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,7F", _BODY),
                ("PGP PRIVATE KEY BLOCK", "Comment: GPGTools - https://gpgtools.org", _BODY),
                ("PGP PRIVATE KEY BLOCK", "Version: 2", "\n".join([_BODY] * 100)),
            )
        ),
    ],
    "AWS secret key": [(f"aws_secret_access_key = {(aws := _drawn(38) + '7a')}", aws)],
    "Slack webhook": [(f"https://hooks.slack.com/services/{(hook := f'T0AB12CD3/B0AB12CD3/{_drawn(24)}')}", hook)],
    "Azure key": [(f"AccountName=weir;AccountKey={(azure := _drawn(86) + '==')};", azure)],
    "password": [("postgres://ada:t0p-Gauge!@db.example.org/weir", "t0p-Gauge!")],
    "secret": [
        (f'API_TOKEN = "{(token := _drawn(30) + "7x")}"', token),
        (f"DB_PORT=5432\nexport API_TOKEN={(line := _drawn(30) + '9w')}\nDEBUG=1", line),
        (f"'client_secret': '{(other := _drawn(40) + '3y')}'", other),
        (f'password: "{(third := "k7#Qz!m2Lp9@Vx4w")}"', third),
    ],
}


@pytest.mark.parametrize(
    ("name", "secret"),
    [(name, one) for name, secrets in _SECRETS.items() for one in secrets],
    ids=lambda value: value[:12],
)
def test_a_token_is_masked_whatever_stands_around_it(name: str, secret: str) -> None:
    for before, after in (("", ""), ("key=", "\n"), ("`", "`"), ('"', '",'), ("Bearer ", " and more"), ("é ", ".")):
        found: Counter[str] = Counter()
        assert mask(f"{before}{secret}{after}", found) == f"{before}«{name}»{after}"
        assert found == {name: 1}


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [(name, *one) for name, texts in _ONLY_IN_PART.items() for one in texts],
    ids=lambda value: value[:20].strip(),
)
def test_of_what_has_a_name_only_the_value_is_masked(name: str, text: str, secret: str) -> None:
    found: Counter[str] = Counter()
    assert mask(f"x {text} y", found) == f"x {text.replace(secret, f'«{name}»')} y" or text.endswith("\n")
    assert secret not in mask(text, Counter())
    assert found == {name: 1}


def test_every_rule_has_a_case_here() -> None:
    without = {"Google secret", "Google token", "Databricks token", "Shopify token", "age key"}
    assert {rule.name for rule in RULES} == _SECRETS.keys() | _ONLY_IN_PART.keys() | without


@pytest.mark.parametrize(
    "text",
    [
        "The password is kept in the keyring; the token comes by mail.",
        "password = os.environ['DATABASE_PASSWORD_PRODUCTION']",
        'token = "your-token-goes-here-1234"',
        'secret: "${{ secrets.GITHUB_TOKEN_2026 }}"',
        'api_key = "<your api key, 32 letters>"',
        'password: "correct horse battery staple"',
        'token_url = "https://login.example.org/oauth2/v2.0/token"',
        'PASSWORD_FIELD = "settings.accounts.password"',
        'tokenizer = "sentence-transformers/all-MiniLM-L6-v2"',
        "postgres://user:password@localhost/db",
        "https://<user>:<password>@example.org",
        "https://${USER}:${PASSWORD}@example.org",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_short and github_pat_ and sk-learn and sk-something-that-is-a-slug-of-words-and-nothing-else",
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 is a blob, 550e8400-e29b-41d4-a716-446655440000 a UUID",
        'integrity = "sha512-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=="',
        "API_TOKEN=${GITHUB_TOKEN_2026}\nSECRET_KEY=change-me-2026-please\nTOKEN=$(cat /run/secrets/t0ken)",
        "def token(self) -> str | None: ...",
        "mailto:ada@example.org at 10:30, see http://example.org:8080/@ada",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    found: Counter[str] = Counter()
    assert mask(text, found) == text
    assert found == {}


def test_nothing_in_the_example_vault_or_in_this_program_is_taken_for_a_secret() -> None:
    root = Path(__file__).parent.parent.parent
    found: Counter[str] = Counter()
    for folder, pattern in (
        ("examples/vault", "**/*.md"),
        ("catchment", "**/*.py"),
        ("docs", "*.md"),
        ("console", "*.py"),
    ):
        for path in (root / folder).glob(pattern):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert mask(text, found) == text, path.name
    assert found == {}


def test_a_document_tells_how_many_were_masked_and_keeps_none_anywhere() -> None:
    secret = f"ghp_{_drawn(36)}"
    key = _drawn(30) + "7q"
    note = f"---\ntoken: {secret}\napi_key: {key}\ndeep: [{{a: [{secret}]}}]\n---\n# {secret}\n\nSee `{secret}`.\n"
    document = masked(normalize(RawContent(note.encode(), "note.md")))
    assert secret not in repr(document)
    assert key not in repr(document.properties)
    assert document.warnings[-1].startswith("secrets were masked: ")
    assert "GitHub token" in document.warnings[-1]


def test_a_document_without_secrets_is_the_same_object() -> None:
    document = Document("Plain words.", "text/markdown", properties={"tags": ["a"]})
    assert masked(document) is document


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        *("eyJ", "aws", "a://b:", 'token="', "ghp_", "sk-", "0:aa"),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY----- -"),
    ],
)
def test_text_that_is_made_to_be_slow_is_looked_through_in_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert mask(text, Counter()) == text
