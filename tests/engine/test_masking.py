"""Secrets in content are masked, and other text is unchanged."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import importlib
import random
import re
import string
import uuid
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from catchment.content.codec import decode_document, decode_extraction
from catchment.content.normalize import normalize
from catchment.content.parsing import Read, ReadTask, extract_document, read
from catchment.content.secret_masking import mask, masked, without_secrets
from catchment.content.secret_rules import RULES, Scope, SecretRule
from catchment.model import Document, Extraction, Item, RawContent

_LETTERS = string.ascii_letters + string.digits
_lot = random.Random(7)


def _drawn(number: int, letters: str = _LETTERS) -> str:
    """Return random characters, so that no file of this project contains a secret."""
    return "".join(_lot.choices(letters, k=number))


# Token templates from the issuers' descriptions. Random fields are in braces: a length and a: letters or digits, w:
# also - and _, b: also + and /, h: hexadecimal, u: capitals or digits, t: capitals or 2 to 7, l: small letters or
# digits, p: letters, n: digits; i is a UUID. Thus no file of this project contains a token.
_TOKENS = """
    1Password service token: ops_eyJ{w300}
    1Password secret key: A3-{u6}-{u11}-{u5}-{u5}-{u5}
    Adafruit key: aio_{a28}
    Adobe secret: p8e-{l32}
    Airtable token: pat{a14}.{h64}
    Alibaba key id: LTAI{a20}
    Anthropic key: sk-ant-api03-{w93}AA
    Apify token: apify_api_{a36}
    Artifactory token: AKCp{a69}
    Artifactory reference token: cmVmdGtu{a56}
    Asana token: 1/{n16}:{h32}
    Asana token: 2/{n16}/{n16}:{h32}
    Atlassian token: ATATT3xFfGF0{w170}={u8}
    Atlassian token: ATCTT3xFfGN0{w170}={u8}
    AWS Bedrock key: ABSK{b128}
    AWS key id: AKIA{t16}
    AWS key id: ASIA{t16}
    AWS marketplace key: amzn.mws.{i}
    Azure app secret: {a3}8Q~{a34}
    Azure DevOps token: {a76}AZDO{a4}
    Azure function key: {w44}AzFuA{a5}==
    Azure search key: {a42}AzSeA{a5}
    Azure cache key: {a33}AzCaA{a5}=
    Azure storage key: {b76}+ASt{a5}==
    Azure batch key: {b76}+ABa{a5}==
    Azure Cosmos DB key: {b76}ACDb{a5}==
    Azure registry key: {b42}+ACRA{a5}
    Azure event key: {b33}AIoTA{a5}=
    Azure event key: {b33}+ASbA{a5}=
    Beamer key: b_{l44}
    Bitbucket password: ATBB{a32}
    Braintree token: access_token$production${l16}${h32}
    Brevo key: xkeysib-{h64}-{a16}
    Buildkite token: bkua_{h40}
    Cerebras key: csk-{l48}
    CircleCI token: CCIPAT_{a22}_{h40}
    ClickUp token: pk_{n8}_{u32}
    Clojars token: CLOJARS_{l60}
    Cloudflare origin key: v1.0-{h24}-{h146}
    Contentful token: CFPAT-{w43}
    crates.io token: cio{a32}
    Databricks token: dapi{h32}
    dbt token: dbtc_{a40}
    DigitalOcean token: dop_v1_{h64}
    DigitalOcean token: dor_v1_{h64}
    Discord token: M{a25}.{a6}.{w38}
    Discord multi-factor token: mfa.{w84}
    Docker token: dckr_pat_{w27}
    Docker token: dckr_oat_{w32}
    Doppler token: dp.pt.{a43}
    Doppler token: dp.st.dev.{a43}
    Dropbox token: sl.{w135}
    Dropbox token: sl.u.{w135}
    Duffel token: duffel_live_{w43}
    Dynatrace token: dt0c01.{u24}.{u64}
    EasyPost key: EZAK{a54}
    Facebook token: EAAC{a160}
    Figma token: figd_{w40}
    Firebase server key: AAAA{w7}:APA91b{w134}
    Firecrawl key: fc-{h32}
    Fireworks key: fw_{a24}
    Flutterwave key: FLWSECK-{l32}-X
    Fly.io token: fo1_{w43}
    Fly.io token: fm2_{b160}
    Frame.io token: fio-u-{w64}
    GitHub token: ghp_{a36}
    GitHub OAuth token: gho_{a36}
    GitHub app token: ghu_{a36}
    GitHub app token: ghs_{a36}
    GitHub refresh token: ghr_{a76}
    GitHub fine-grained token: github_pat_{a22}_{a59}
    GitLab token: glpat-{w20}
    GitLab deploy token: gldt-{w20}
    GitLab runner token: glrt-{w20}
    GitLab runner token: GR1348941{w20}
    GitLab job token: glcbt-64_{w20}
    GitLab trigger token: glptt-{h40}
    GitLab feed token: glft-{a20}
    GitLab mail token: glimt-{l25}
    GitLab agent token: glagent-{w50}
    GitLab OAuth secret: gloas-{h64}
    GitLab SCIM token: glsoat-{w20}
    GitLab feature token: glffct-{w20}
    GoCardless token: live_{w40}
    GoCardless token: sandbox_{w40}
    Google key: AIza{w35}
    Google OAuth secret: GOCSPX-{w28}
    Google access token: ya29.{w120}
    Google refresh token: 1//0{w60}
    Grafana service token: glsa_{a32}_{h8}
    Grafana cloud token: glc_{b80}
    Groq key: gsk_{a52}
    Harness token: pat.{a22}.{a24}.{a20}
    Heroku token: HRKU-AA{w58}
    Heroku token: HRKU-{i}
    Honeycomb key: hcaik_{l58}
    HubSpot token: pat-na1-{i}
    Hugging Face token: hf_{p34}
    Hugging Face org token: api_org_{p34}
    Infracost key: ico-{a32}
    Instagram token: IGQW{w140}
    JetBrains token: perm:{a12}.{a12}.{a40}
    Jina key: jina_{a60}
    Langfuse key: sk-lf-{i}
    LangSmith key: lsv2_pt_{h32}_{h10}
    LaunchDarkly key: sdk-{i}
    LaunchDarkly key: api-{i}
    Lichess token: lip_{a20}
    Linear key: lin_api_{a40}
    Linear key: lin_oauth_{h64}
    LinkedIn secret: WPL_AP1.{a16}.{a6}==
    Mailchimp key: {h32}-us12
    Mailgun key: key-{h32}
    fal, Ghost, Mailgun or Zhipu key: {h32}-{h8}-{h8}
    fal, Ghost, Mailgun or Zhipu key: {h24}:{h64}
    fal, Ghost, Mailgun or Zhipu key: {i}:{h32}
    Mandrill key: md-{a22}
    Mapbox token: sk.eyJ{a80}.{w22}
    Matrix token: syt_{a10}_{a20}_{a6}
    Mercado Pago token: APP_USR-{n16}-{n6}-{h32}-{n9}
    Lob or Mollie key: live_{a30}
    Lob or Mollie key: test_{h35}
    Neon key: napi_{l64}
    Netlify token: nfp_{a36}
    New Relic user key: NRAK-{u27}
    New Relic query key: NRII-{w32}
    New Relic REST key: NRRA-{h42}
    New Relic browser key: NRJS-{h19}
    New Relic license key: {h36}NRAL
    Notion token: ntn_{a46}
    Notion secret: secret_{a43}
    npm token: npm_{a36}
    NuGet key: oy2{l43}
    NVIDIA key: nvapi-{w64}
    OpenAI key: sk-proj-{a48}
    OpenAI key: sk-{a48}
    OpenAI key: sk-svcacct-{w80}
    OpenRouter key: sk-or-v1-{h64}
    OpenShift token: sha256~{w43}
    Packagist token: packagist_uut_{h68}
    Perplexity key: pplx-{a48}
    Pinecone key: pcsk_{a6}_{a63}
    Plaid token: access-production-{i}
    PlanetScale token: pscale_tkn_{w43}
    PostHog key: phx_{a43}
    Postman key: PMAK-{h24}-{h34}
    Postman collection key: PMAT-{u26}
    Prefect key: pnu_{a36}
    Pulumi token: pul-{h40}
    PyPI token: pypi-AgEIcHlwaS5vcmc{w80}
    Razorpay key: rzp_live_{a14}
    ReadMe key: rdme_{l70}
    Render key: rnd_{a32}
    Replicate token: r8_{a37}
    Resend key: re_{a8}_{a24}
    RubyGems key: rubygems_{h48}
    Salesforce token: 00D{a15}!{a96}
    Samsara token: samsara_api_{a30}
    Scalingo token: tk-us-{w48}
    SendGrid key: SG.{w22}.{w43}
    Sentry org token: sntrys_eyJ{b120}
    Sentry user token: sntryu_{h64}
    Shippo token: shippo_live_{h40}
    Shopify token: shpat_{h32}
    Slack token: xoxb-{n12}-{n12}-{a24}
    Slack token: xoxp-{n12}-{n12}-{n12}-{h32}
    Slack app token: xapp-1-A{u10}-{n13}-{h64}
    Slack rotating token: xoxe.xoxb-1-{a160}
    Slack rotating token: xoxe-1-{a146}
    Snyk token: snyk_uat.{h8}.{w120}
    SonarQube token: sqp_{h40}
    Sourcegraph token: sgp_{h16}_{h40}
    Square token: sq0atp-{w22}
    Square secret: sq0csp-{w43}
    Square access token: EAAA{a60}
    Stripe key: sk_live_{a24}
    Stripe key: rk_live_{a99}
    Stripe test key: sk_test_{a24}
    Stripe webhook secret: whsec_{a32}
    Supabase token: sbp_{h40}
    Supabase secret key: sb_secret_{a22}_{a8}
    Tailscale key: tskey-auth-{a16}-{a32}
    Tailscale key: tskey-client-{a16}-{a32}
    Tavily key: tvly-dev-{a32}
    Telegram token: 987654321:AA{w33}
    Tencent key id: AKID{a32}
    Terraform token: {a14}.atlasv1.{a67}
    Together key: tgp_v1_{w43}
    Trello token: ATTA{h72}
    Twilio key: SK{h32}
    Twitter bearer token: AAAAAAAAAAAAAAAAAAAAA{a20}%2B{a30}%3D{a30}
    Typeform token: tfp_{a59}
    Vault token: hvs.{a24}
    Vault batch token: hvb.{w140}
    Vault recovery token: hvr.{a24}
    Vercel token: vcp_{a56}
    Vercel blob token: vercel_blob_rw_{a16}_{a30}
    VK token: vk1.a.{w90}
    Voyage key: pa-{w43}
    WakaTime key: waka_{i}
    xAI key: xai-{a80}
    Yandex key: AQVN{w36}
    Zuplo key: zpka_{h32}_{h8}
    age key: AGE-SECRET-KEY-1{u58}
    JSON web token: eyJ{w30}.eyJ{w60}.{w43}
"""
_ALPHABETS = {
    "a": _LETTERS, "w": _LETTERS + "-_", "b": _LETTERS + "+/", "h": "0123456789abcdef", "n": string.digits,
    "u": string.ascii_uppercase + string.digits, "l": string.ascii_lowercase + string.digits,
    "p": string.ascii_letters, "t": string.ascii_uppercase + "234567",
}  # fmt: skip
_FIELD = re.compile(r"\{([a-z])(\d*)\}")


def _drawn_from(template: str, shorter: int = 1) -> str:
    """Fill the template's fields with random characters; each field starts with a digit and ends with a letter."""

    def field(found: re.Match[str]) -> str:
        if found[1] == "i":
            return str(uuid.UUID(int=_lot.getrandbits(128)))
        number = int(found[2]) // shorter
        drawn = _drawn(number, _ALPHABETS[found[1]])
        return (
            drawn if number < 3 or found[1] == "n" else f"7{drawn[1:-1]}c" if found[1] in "ahl" else f"7{drawn[1:-1]}C"
        )

    return _FIELD.sub(field, template)


def _issued(template: str, lot: random.Random) -> str:
    """Fill the template's fields with random characters, as an issuer does."""

    def field(found: re.Match[str]) -> str:
        if found[1] == "i":
            return str(uuid.UUID(int=lot.getrandbits(128)))
        return "".join(lot.choices(_ALPHABETS[found[1]], k=int(found[2])))

    return _FIELD.sub(field, template)


_ID = str(uuid.UUID(int=_lot.getrandbits(128)))
_HEX, _BASE32 = "0123456789abcdef", string.ascii_uppercase + "234567"


def _checked(data: bytes) -> str:
    """Encode as Base58 with Bitcoin's checksum."""
    letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number = int.from_bytes(data + hashlib.sha256(hashlib.sha256(data).digest()).digest()[:4], "big")
    text = ""
    while number:
        number, place = divmod(number, 58)
        text = letters[place] + text
    return text


def _bech32(prefix: str, data: bytes) -> str:
    """The example encoder of BIP 173."""
    letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
    bits = "".join(f"{byte:08b}" for byte in data)
    values = [int(bits[at : at + 5].ljust(5, "0"), 2) for at in range(0, len(bits), 5)]
    check = 1
    for value in [ord(x) >> 5 for x in prefix] + [0] + [ord(x) & 31 for x in prefix] + values + [0] * 6:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for number, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> number & 1 else 0
    check ^= 1
    return f"{prefix}1" + "".join(
        letters[value] for value in [*values, *(check >> 5 * (5 - at) & 31 for at in range(6))]
    )


_ROWS = [tuple(row.strip().split(": ", 1)) for row in _TOKENS.strip().split("\n")]
_BODY = "\n".join(_drawn(64) for _ in range(4))
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
    "Slack webhook": [
        (f"https://hooks.slack.com/services/{(hook := f'T0AB12CD3/B0AB12CD3/{_drawn(24)}')}", hook),
        (f"https://hooks.slack.com/triggers/{(flow := f'T0AB12CD3/{_drawn(13, string.digits)}/{_drawn(32)}')}", flow),
    ],
    "Discord webhook": [
        (f"https://discord.com/api/webhooks/{_drawn(18, string.digits)}/{(discord := _drawn(68))}", discord)
    ],
    "Teams webhook": [
        (
            f"https://weir.webhook.office.com/webhookb2/{_ID}@{_ID}/IncomingWebhook/{(teams := f'{_drawn(32, _HEX)}/{_ID}')}",
            teams,
        )
    ],
    "Google Chat webhook": [
        (
            f"https://chat.googleapis.com/v1/spaces/AAAAweir/messages?key={(chat := f'AIza{_drawn(35)}&token={_drawn(43)}')}",
            chat,
        )
    ],
    "Zapier webhook": [
        (f"https://hooks.zapier.com/hooks/catch/{_drawn(7, string.digits)}/{(zap := 'b7' + _drawn(5))}", zap)
    ],
    "Azure key": [(f"AccountName=weir;AccountKey={(azure := _drawn(86) + '==')};", azure)],
    "Azure signature": [
        (f"https://weir.blob.core.windows.net/a?sv=2024-01-01&sr=b&sig={(sas := _drawn(43) + '%3D')}", sas)
    ],
    "AWS signature": [
        (f"https://weir.s3.amazonaws.com/a?X-Amz-Date=1&X-Amz-Signature={(signed := _drawn(64, _HEX))}", signed)
    ],
    "Sentry key": [(f"https://{_drawn(32, _HEX)}:{(dsn := _drawn(32, _HEX))}@o1.ingest.sentry.io/7", dsn)],
    "one-time password seed": [(f"otpauth://totp/Weir:ada?secret={(seed := _drawn(32, _BASE32))}&issuer=Weir", seed)],
    "Django key": [(f"SECRET_KEY = 'django-insecure-{(django := _drawn(50))}'", django)],
    "Laravel key": [(f"APP_KEY=base64:{(laravel := _drawn(43) + '=')}", laravel)],
    "Tezos key": [(f"sweep {(tezos := _checked(bytes([13, 15, 58, 7]) + _lot.randbytes(32)))} now", tezos)],
    "Bitcoin key": [(f"sweep {(coin := _checked(bytes([128]) + _lot.randbytes(32) + bytes([1])))} now", coin)],
    "Bitcoin extended key": [
        (f"sweep {(wallet := _checked(bytes.fromhex('0488ade4') + _lot.randbytes(74)))} now", wallet)
    ],
    "Nostr key": [(f"post as {(nostr := _bech32('nsec', _lot.randbytes(32)))} now", nostr)],
    "authorization": [
        (f"Authorization: Bearer {(bearer := _drawn(40) + '7q')}", bearer),
        (f"-H 'Authorization: token {(header := _drawn(40) + '7q')}'", header),
        (f'"Authorization": "Basic {(basic := base64.b64encode(b"ada:gauge-7-weir").decode())}"', basic),
        (f"_auth={(npm := base64.b64encode(b'ada:gauge-7-weir').decode())}", npm),
    ],
    "password": [
        ("postgres://ada:t0p-Gauge!@db.example.org/weir", "t0p-Gauge!"),
        ("redis://:t0p-Gauge!@db.example.org/0", "t0p-Gauge!"),
        ("machine weir.org login ada password larch-Tree-7", "larch-Tree-7"),
        ("machine weir.org\n  login ada\n  password larch-Tree-7", "larch-Tree-7"),
        ("curl -s -u ada:larch7 https://weir.org", "larch7"),
        ('curl https://weir.org --user "ada:larch7"', "larch7"),
        ("sshpass -p larch7weir ssh ada@weir.org", "larch7weir"),
        ("password: h8Gh29dkLqPz81Mn72Hs", "h8Gh29dkLqPz81Mn72Hs"),
        ('DB_PASSWORD="s3cr3tP4ss!"', "s3cr3tP4ss!"),
        ("PGPASSWORD=s3cr3tP4ss! psql", "s3cr3tP4ss!"),
        ("Server=db;User Id=ada;Pwd=s3cr3tP4ss!;Timeout=3", "s3cr3tP4ss!"),
        ("mysql --password s3cr3tP4ss!", "s3cr3tP4ss!"),
        ("<password>s3cr3tP4ss!</password>", "s3cr3tP4ss!"),
        ('"smtp_pass": "s3cr3tP4ss!"', "s3cr3tP4ss!"),
        ("'passphrase' => 's3cr3tP4ss!'", "s3cr3tP4ss!"),
        (f'password: "{(third := "k7#Qz!m2Lp9@Vx4w")}"', third),
    ],
    "secret": [
        (f'API_TOKEN = "{(token := _drawn(30) + "7x")}"', token),
        (f"DB_PORT=5432\nexport API_TOKEN={(line := _drawn(30) + '9w')}\nDEBUG=1", line),
        (f"'client_secret': '{(other := _drawn(40) + '3y')}'", other),
        (f"//registry.weir.org/:_authToken={(registry := _drawn(36) + '3y')}", registry),
        (f"X-Api-Key: {(key := _drawn(32) + '3y')}", key),
        (f"DATADOG_API_KEY={(datadog := '7' + _drawn(31, _HEX))}", datadog),
        (f"heroku_api_key: {(heroku := _ID)}", heroku),
        (f'const apiKey: string = "{(typed := _drawn(32) + "3y")}"', typed),
        (f"define('AUTH_KEY', '{(wordpress := _drawn(50) + '3y')}');", wordpress),
        (f"https://weir.org/a?access_token={(query := _drawn(32) + '3y')}&b=1", query),
        (f"weir login --token {(option := _drawn(32) + '3y')}", option),
        (f"PrivateKey = {(wire := _drawn(43) + '=')}", wire),
    ],
}


def test_token_of_every_issuer_is_masked_in_any_context() -> None:
    for name, template in _ROWS:
        secret = _drawn_from(template)
        for before, after in (("", ""), ("set=", "\n"), ("`", "`"), ('"', '",'), ("with ", " and more"), ("é ", ".")):
            found: Counter[str] = Counter()
            assert mask(f"{before}{secret}{after}", found) == f"{before}«{name}»{after}"
            assert found == {name: 1}


def _missed(template: str, name: str, number: int) -> list[str]:
    """Return the tokens that are not masked of a number of random ones."""
    lot = random.Random(template)
    tokens = [_issued(template, lot) for _ in range(number)]
    lines = mask("\n".join(tokens)).split("\n")
    return [token for token, line in zip(tokens, lines, strict=True) if line != f"«{name}»"]


def test_random_tokens_of_every_issuer_are_masked() -> None:
    assert [missed for name, template in _ROWS for missed in _missed(template, name, 100)] == []


@pytest.mark.soak
@pytest.mark.parametrize(("name", "template"), _ROWS)
def test_three_thousand_tokens_of_every_issuer_are_masked(name: str, template: str) -> None:
    assert _missed(template, name, 3_000) == []


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + string.ascii_letters[:34][::-1],
        "AKIA" + "UBIWBJSQBCNAQAHL",
        "glpat-" + "wZfkyykKkicBiAGvpx_j",
        "glft-" + "aB-dE_gHiJkLmNoPqRsT",
        "sk_live_" + "lxZkYiFKEMDNzlVOJDgTUoQU",
        "live_" + "Zk-YiFKEMDNzlVOJDgTUoQUlx_kYiFKEMDNzlVOp",
    ],
)
@pytest.mark.parametrize(("before", "after"), [("token ", ""), ("__", "__"), ("**", "**"), ("_", "_"), ("x=", "&y")])
def test_tokens_without_digits_and_in_bold_text_are_masked(token: str, before: str, after: str) -> None:
    assert token not in mask(f"{before}{token}{after}")


def test_short_or_single_letter_strings_are_not_tokens() -> None:
    for _, template in _ROWS:
        places = _FIELD.sub(lambda field: "x" * int(field[2] or 36), template)
        for text in (
            f"see {places} here",
            *([] if "{i}" in template else [f"see {_drawn_from(template, shorter=6)} here"]),
        ):
            assert mask(text) == text


@pytest.mark.parametrize(
    ("name", "text", "secret"),
    [(name, *one) for name, texts in _ONLY_IN_PART.items() for one in texts],
    ids=lambda value: value[:20].strip(),
)
def test_only_the_value_of_a_named_secret_is_masked(name: str, text: str, secret: str) -> None:
    found: Counter[str] = Counter()
    assert mask(f"x {text} y", found) == f"x {text.replace(secret, f'«{name}»')} y" or text.endswith("\n")
    assert secret not in mask(text, Counter())
    assert found == {name: 1}


_CHOSEN = (
    "correcthorse9battery",
    "hunter2",
    "Sommer2024!xy",
    "correct-horse-battery-staple-1",
    "Tr0ub4dor&3",
    "kirschbaum-9",
)


@pytest.mark.parametrize(
    "template",
    [
        *(
            "DB_PASSWORD={}",
            "export PGPASSWORD='{}'",
            "FTP_PASSWD={} # nightly",
            "JWT_SECRET={}",
            "PASSWORD2={}\nPORT=1",
        ),
        *('password = "{}"', "passphrase: '{}'", '"password": "{}",', "db_pwd => '{}'", 'pwd: str = "{}"'),
        *("password: {}", "smtp:\n  password: {}\n  port: 25", "[mail]\npassword = {}\n", "connect(password='{}')"),
        *("- **Password:** {}", "**Passwort**: {}\n", "Wifi password: {}", "    - Password: `{}`"),
        *('- name: DB_PASSWORD\n  value: "{}"', '<add key="password" value="{}"/>', "<password>{}</password>"),
        *("tool --password {}", "tool --password={}", 'tool --password "{}"', "sshpass -p {} ssh ada@weir.org"),
        *("https://ada:{}@weir.org/", "curl -u ada:{} https://weir.org", "machine weir login ada password {}"),
    ],
)
def test_password_chosen_by_a_person_is_masked_beside_its_name(template: str) -> None:
    is_bare = template.endswith(("{}", '--password "{}"', "{} ssh ada@weir.org", "25", "{}\n", "nightly", "PORT=1"))
    for chosen in _CHOSEN:
        # An ampersand separates values outside quotes.
        value = chosen.replace("&", "!") if is_bare else chosen
        assert value not in mask(template.format(value))


@pytest.mark.parametrize(
    "text",
    [
        *(
            'network={{\n ssid=weir\n psk="{}"\n}}',
            "  wpa-psk {}\n",
            "WIFI:T:WPA;S:my weir;P:{};;",
            "WIFI:S:weir;P:{};T:WPA;;",
        ),
        *("CREATE USER 'ada'@'%' IDENTIFIED BY '{}';", "identified with caching_sha2_password by '{}'"),
        *("ALTER ROLE ada WITH PASSWORD '{}';", "db.weir.example:5432:gauge:ada:{}", "# c\n*:*:*:ada:{}\n"),
        *("mysql -u root -p{} gauge", "mysqldump -h db \\\n  -p'{}' gauge", "docker login -u ada -p {} weir.example"),
        *("az login --service-principal -u 7 -p {}", "sshpass -p{} ssh ada@weir.example", "redis-cli -a {} ping"),
        *("ldapsearch -x -D cn=ada -w {} -b dc=weir", "htpasswd -b .htpasswd ada {}", "htpasswd -cbB f ada '{}' && ls"),
        *(
            "net use X: \\\\weir\\a {} /user:dom\\ada",
            "net use \\\\weir\\a /user:ada {}",
            "smbclient //weir/a -U ada%{}",
        ),
        *("bindpw {}", "requirepass {}\n", "rootpw '{}'", "ADMIN_PW={}", "db_pw: {}", "http -a ada:{} weir.example"),
        *(
            "| host | user | password |\n|---|---|---|\n| db1 | ada | {} |",
            "| a | **Passwort** |\n|:--|---|\n| b | `{}` |\n",
        ),
        *("host | password\ndb1 | {}", "host,user,password\ndb1,ada,{}\ndb2,ada,{}", 'a;"db password"\r\nb;"{}"\r\n'),
        *(
            "name\tcontraseña\nb\t{}",
            "| Password | {} |\n| User | ada |",
            "| login | Ada |\n|---|---|\n| password | {} |",
        ),
        *("contraseña: {}", "wachtwoord: {}", "mot de passe : {}", "Mot de passe\xa0: {}", "Kennwort={}", "senha = {}"),
        *(
            "hasło: {}",
            "пароль: {}",
            "パスワード：{}",
            "数据库密码：{}",
            "비밀번호: {}",
            "lösenord: {}",
            "HESLO={}",
            "şifre: {}",
        ),
    ],
)
def test_password_in_its_notation_is_masked(text: str) -> None:
    for value in ("aB3xK9mQ7wZ1pL5t", "kirschbaum-9", "Tr0ub4dor+3"):
        masked_text = mask(text.format(value, value))
        assert value not in masked_text
        assert re.sub("«[^»]+»", value, masked_text) == text.format(value, value)


@pytest.mark.parametrize("template", ["password: {}", "DB_PASSWORD={}", "Passwort für NAS: {}"])
def test_generated_password_is_masked_as_a_whole_although_parts_look_like_code(template: str) -> None:
    for value in (
        *("a`)7P}k!tVah}:V9", "zH2T%H!={?lo_oRm", "0dJ6&z__^IlD21[[", "&J|-/XWMv.^j?5hB", "\\Z@nX1?D?JbA[E-i"),
        *("xK2->q9(Rb)w::T4", "R7&&k2=Lq||9zW.x", "$q9{Kd}3:fW/8xB2"),
    ):
        assert mask(template.format(value)) == template.format("«password»")


@pytest.mark.parametrize("escape", ["\\T", "\\N", "\\R", "\\t", "\\n", "\\r"])
@pytest.mark.parametrize("template", ["password: {}", "DB_PASSWORD={}\nPORT=1", "Passwort für NAS: {}, "])
def test_generated_password_with_an_escape_is_masked_as_a_whole(template: str, escape: str) -> None:
    for parts in (("0?cA7k!x", ",%Zq"), ("&Gx2#m.LqQ", "8>9"), ("OT$N)sIXc9", "uL*M."), ("y8(Kp_2;", "")):
        assert mask(template.format(escape.join(parts))) == template.format("«password»")


@pytest.mark.parametrize("rest", ["\\nuser: ada", '\\nid=7\\n"', "\\tx='1'", '\\r\\n",', "\\nPORT=1", "\\n\\nRegards"])
def test_lines_behind_an_escape_are_unchanged(rest: str) -> None:
    assert mask(f'"password: Xk7q!Lm2w{rest}') == f'"password: «password»{rest}'


def test_password_in_an_export_of_a_program_is_masked() -> None:
    for text in (
        "name,url,username,password,note\nBank,https://b.org,ada,{0},\nShop,https://c.org,bo,{0},pays\n",
        "Title,URL,Username,Password,Notes,OTPAuth\r\nBank,https://b.org,ada,{0},,\r\nShop,,bo,{0},,\r\n",
        "folder,favorite,name,login_username,login_password,login_totp\n,,Bank,ada,{0},\n",
        'url,username,password,totp,extra,name\nb.org,ada,{0},,"a note,\nof ""three""\nlines",Bank\nc.org,bo,{0},,,Shop',
        "a;password;\nb;{0};\nc;;\nd;{0};\n",
    ):
        filled = text.format("Pky6Wq7lBUv")
        assert mask(filled) == text.format("«password»") != filled
    unclosed = 'a,password\nb,Pky6Wq7lBUv\n"c,d\n' + "word, word\n" * 500
    assert mask(unclosed) == unclosed.replace("Pky6Wq7lBUv", "«password»")


_SYMBOLS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


@pytest.mark.parametrize("symbol", _SYMBOLS)
@pytest.mark.parametrize(
    "template",
    [
        "password: {}",
        "DB_PASSWORD={}",
        "pwd = {} # nightly",
        'password = "{}"',
        "'password': '{}',",
        "curl -u 'ada:{}'",
    ],
)
def test_password_with_any_symbol_is_masked_as_a_whole(template: str, symbol: str) -> None:
    value = f"Xk7q{symbol}Lm2wZ9"
    if symbol not in template and (symbol != '"' or "curl" not in template):
        masked_text = mask(template.format(value))
        assert masked_text == template.format("«password»")


@pytest.mark.parametrize(
    "text",
    [
        *("(password: {}canyon)", "user: ada, password: {}, host: x", "password: {} | x", "password: {} (old)"),
        *("<p>Password: {}<br>", "host=x,password={},user=a", "Password: **{}**", "Password: *{}*", "Password: __{}__"),
        *("| Wi-Fi password | **{}** |", "<password type='x'>{}</password>", "<Password><![CDATA[{}]]></Password>"),
        *('<Pass encoding="base64">{}</Pass>', 'keystorePass="{}"', "DBPASS={}", "SSHPASS={}", "FTPPASS='{}'"),
        *("Passwort für NAS: {}", "mot de passe Wi-Fi : {}", "contraseña del wifi: {}", "Password (new): {}"),
        *("Password for the NAS: {}", "senha do wifi = {}", "password (for bob, old): {}"),
        *("dnpass = {}", 'smtpPass = "{}"', "PW: {}", "pw={}", "db.pw={}"),
    ],
)
def test_password_in_parts_of_lines_and_in_elements_is_masked(text: str) -> None:
    for value in ("hammer46", "Hammer46", "Xk7qLm2wZ9"):
        assert value not in mask(text.format(value))


@pytest.mark.parametrize("text", ["password=48213907,user=a", "(password: 48213907)", "connect(password=48213907)"])
def test_password_of_digits_is_masked_in_parts_of_lines(text: str) -> None:
    assert "48213907" not in mask(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "compass = west46north",
            "bypass=Route46north",
            "renderPass = Shadow2048",
            "connect(user, password=value22, x=1)",
        ),
        *("proxy_pass http://gauge46;", "password: at least 46, of them", "x=Ab9pw=\nAb9+pw==", "pwr: 48213907"),
        *("passed: 48213907, failed: 0", "password: int64, user: str", "**Password:** **required**", "(pw: none)"),
        *(
            "the password for user: bob46 is old",
            "Password (8 to 20): letters",
            "Password of length: 12",
            "pass (1): none",
        ),
        *('<pass encoding="x">none</pass>', "The password <b>must</b> be sent", "spw: Hammer46", "cpw=Hammer46"),
    ],
)
def test_look_alikes_in_parts_of_lines_are_unchanged(text: str) -> None:
    assert mask(text) == text


def test_private_key_in_a_patch_is_masked() -> None:
    for sign in "-+ >":
        for last in ("", "\n-----END RSA PRIVATE KEY-----"):
            key = f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}{last}".replace("\n", f"\n{sign}")
            masked_text = mask(f"@@ -1 +0 @@\n{sign}{key}\n-x = 1\n see below")
            assert not any(line in masked_text for line in _BODY.split("\n"))
            assert masked_text.endswith("\n-x = 1\n see below")


def test_secret_of_a_header_in_other_notations_and_of_an_access_key_is_masked() -> None:
    login, token = base64.b64encode(b"ada:hammer46canyon").decode(), "mF_9B5f-4q1JqM8xWz2K"
    for text in (
        f'proxy_set_header Authorization "Basic {login}";',
        f'{{"name":"Authorization","value":"Bearer {token}"}}',
        f'{{"name": "authorization",\n  "value": "Basic {login}"}}',
        f'add_header X-Auth-Token "{token}";',
        f"X-Auth-Token: {token}",
    ):
        assert login not in mask(text)
        assert token not in mask(text)
    secret = _drawn(19) + "/7q+" + _drawn(17)
    key = "AKIA" + _drawn(16, string.ascii_uppercase + "234567")
    for text in ("User name,Access key ID,Secret access key\nada,{0},{1}\n", '"{0}","{1}"', "| {0} | {1} |"):
        assert secret not in mask(text.format(key, secret))
    for text in (
        'the header Authorization "Basic" is',
        "authorization, value",
        '"name":"Authorization","value":"none"',
    ):
        assert mask(text) == text


@pytest.mark.parametrize("letters", [f"{_LETTERS}!@#$%^&*", _LETTERS + _SYMBOLS])
def test_most_random_passwords_are_masked_as_a_whole(letters: str) -> None:
    lot = random.Random(3)
    values = ["".join(lot.choices(letters, k=14)) for _ in range(300)]
    kept = [value for value in values if mask(f"password: {value}").rstrip(",;*_") != "password: «password»"]
    assert len(kept) <= 75, kept
    assert not [value for value in kept if "«password»\\" in mask(f"password: {value}")]


@pytest.mark.parametrize(
    "text",
    [
        *("password: velvet.{0}", "docker login -p 'Xk7q.{0}' weir", "curl -u ada:Xk7q${0} weir", "psk=Xk7q;{0}"),
        *("IDENTIFIED BY 'Xk7q%{0}'", "*:*:*:ada:Xk7q.{0}\n", "| a | password |\n|--|--|\n| b | Xk7q%{0} |"),
        *("postgres://ada:{0}%21@db/x", "postgres://ada:%40{0}@db/x", "https://ada:Xk7q.{0}@nas/x"),
        *("https://ada:Xk7q${0}@nas/x", "smb://dom;ada:{0}@nas", "- Password: Xk7q(Lm2w<br>{0}"),
    ],
)
def test_password_with_symbols_is_masked_in_its_notation(text: str) -> None:
    assert "kiwi77" not in mask(text.format("kiwi77")).replace("<br>kiwi77", "")


@pytest.mark.parametrize(
    "text",
    [
        *(
            'password = config.get("db2Password")',
            "password = Xk7(lm2, W9)",
            "password: ${{DB_PASS2}}",
            "password=$Db2Pass",
        ),
        *("password: {{ Vault2.Db9 }}", "password = form2.Data9", "pwd = h2.Hash(X9)", "PASSWORD=%DB_PASS2%"),
        *(
            "password = Sha256.Of[2]",
            "password: $2y$10$Xk7qLm2wZ9",
            "password = /Run/Secrets2",
            "password: numpy.int64",
        ),
        *("password=f2(X),user=Y3", "https://ada:%(pass2)s@db", "password: server.p12", "'password': Xk2->Lm9"),
        *("connect(password=Auth_info[2])", "password=~/.Pw2/X9", 'password: "Xk2" + Lm9("x")'),
    ],
)
def test_code_beside_the_name_of_a_password_is_unchanged(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize("value", ["wqzk fjdp lmno bvtr", "wqzk-fjdp-lmno-bvtr", "aB3d 9fGh iJ7k LmN2 oP4q rS6t"])
def test_password_of_an_application_in_groups_is_masked(value: str) -> None:
    for text in (
        'GMAIL_APP_PASSWORD="{}"',
        "app password: {}\n",
        "password = '{}' # mail",
        "| password |\npassword: `{}`",
    ):
        assert value not in mask(text.format(value))


def test_base64_that_decodes_to_a_secret_is_masked() -> None:
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n-----END RSA PRIVATE KEY-----\n"
    for secret in (
        key,
        f"\n{key}",
        f'{{"type": "service_account", "private_key": "{key}"}}',
        f"A=1\nGH=ghp_{_drawn(36)}\n",
    ):
        encoded = base64.b64encode(secret.encode()).decode()
        for text in (
            f"client-key-data: {encoded}",
            f"data:\n  tls.key: {encoded}\n",
            f'"value":"{encoded}"',
            f"{encoded}.",
        ):
            assert re.sub("«[^»]+»", encoded, mask(text)) == text != mask(text)
        wrapped = base64.encodebytes(secret.encode()).decode().strip()
        assert mask(f"key: |\n{wrapped}\nend!") == "key: |\n«encoded secret»\nend!"
        url = encoded.replace("+", "-").replace("/", "_").rstrip("=")
        assert mask(f"x={url}") == "x=«encoded secret»"
    plain = base64.b64encode(("Words of a text, which are no secret. " * 9).encode()).decode()
    assert mask(f"data:text/plain;base64,{plain}") == f"data:text/plain;base64,{plain}"


def test_login_of_a_registry_and_private_members_of_keys_are_masked() -> None:
    login = base64.b64encode(f"ada:{_drawn(24)}".encode()).decode()
    assert login not in mask(f'{{"auths": {{"ghcr.example": {{"auth": "{login}"}}}}}}')
    member = _drawn(43)
    for text in (
        '{{"kty":"EC","x":"{0}","d":"{1}"}}',
        '{{"k": "{1}", "kty": "oct"}}',
        '{{\\"kty\\":\\"OKP\\",\\"d\\":\\"{1}\\"}}',
    ):
        public = _drawn(43)
        masked_text = mask(text.format(public, member))
        assert member not in masked_text
        assert public in masked_text or "{0}" not in text
    assert mask('{"k": "' + member + '"}, {"kty": "x"}') == '{"k": "' + member + '"}, {"kty": "x"}'


@pytest.mark.parametrize("value", ["correcthorse", "sonnenblume", "correct-horse-battery-staple"])
@pytest.mark.parametrize(
    "template", ["DB_PASSWORD={}", 'password = "{}"', '"passphrase": "{}"', "ftp://ada:{}@weir.org"]
)
def test_password_of_letters_is_masked_in_quotes_and_variables(template: str, value: str) -> None:
    assert value not in mask(template.format(value))


_PLACEHOLDERS = (
    *("changeme", "change-me-2026", "<password>", "xxxx", "********", "your-password", "your_password_1", "example123"),
    *("${DB_PASSWORD}", "$PASSWORD1", "{{ vault_password2 }}", "{{password2}}", "%(password2)s", "{password2}"),
    *("os.environ['PASSWORD2']", "getpass.getpass()", "read_file(path2)", "config.db.password2", "args[2].value"),
    *(
        "env:MAIL_PASSWORD2",
        "file:/run/secrets/db2",
        "/run/secrets/db2",
        "~/.pw2",
        "vault:kv/db2",
        "https://weir.org/2",
    ),
    *("None", "null", "true", "", "password", "password1", "my_password2", "new-password", "current-password"),
    *("str", "string", "varchar", "int32", "sha256", "Passwort", "Contraseña", "login_field2", "8", "1000"),
)


@pytest.mark.parametrize(
    "template",
    ["DB_PASSWORD={}", 'password = "{}"', '"password": "{}"', "password: {}", "password = {}", "--password {}"],
)
def test_placeholders_and_references_are_not_passwords(template: str) -> None:
    for text in map(template.format, _PLACEHOLDERS):
        assert mask(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "password: the word that you chose in 2024",
        "The password: at least 8 characters, among them one digit.",
        "If the password is wrong3times, the account is locked. Passwords expire after 90days.",
        "def login(user: str, password: str2, pwd=default2): connect(user, password=pw2, secret=value2)",
        "password = password2\nif password == stored2: ...\npassword_hash = hash2\npassword2 = form2.cleaned",
        "passwd: files systemd\nshadow: files2\ngroup: compat2",
        "--password-file secrets2.txt --pwd-min-length 12chars",
        "| password | string | at least 8characters |",
        'minimum_password_length = "12chars"\npassword_policy: "strict2"\nsecret_name: "weir-tls2"',
        '"AWS::SecretsManager::Secret": "c85175a4ebcce361"',
    ],
)
def test_text_about_passwords_is_unchanged(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize("token", ["abcdEFGH1234ijklMNOP5678", "QwErTyUiOpAsDfGhJkLz", "mF_9.B5f-4.1JqM/x=="])
def test_bearer_token_of_any_form_is_masked(token: str) -> None:
    assert token not in mask(f"Authorization: Bearer {token}\n")
    for text in (
        "Authorization: Bearer YOUR_ACCESS_TOKEN",
        "Authorization: Bearer some-access-token",
        "Bearer accessTokenValue",
    ):
        assert mask(text) == text


@pytest.mark.parametrize(
    "escape", ["\\n", "\\t", "\\x27", "\\u0022", "%3D", "\x1b[32m", "\x1b[1;31m", '{\\"a\\": \\"', "\\\\n"]
)
@pytest.mark.parametrize("template", ["ghp_{a36}", "AKIA{t16}", "hf_{p34}", "xoxb-{n12}-{n12}-{a24}"])
def test_token_behind_an_escape_is_masked(escape: str, template: str) -> None:
    token = _drawn_from(template)
    masked_text = mask(f"line{escape}{token}\\n")
    assert masked_text.startswith(f"line{escape}«")
    assert token not in masked_text


@pytest.mark.parametrize(
    "text",
    [
        *('{{\\"password\\": \\"{}\\"}}', '"{{\\"db_password\\":\\"{}\\"}}"', '{{\\\\\\"pwd\\\\\\":\\\\\\"{}\\\\\\"}}'),
        *("pass={}", "__Password:__ {}"),
    ],
)
def test_password_in_escaped_quotes_and_at_the_start_is_masked(text: str) -> None:
    assert "hunter2hunter2" not in mask(text.format("hunter2hunter2"))


@pytest.mark.timeout(20)
def test_value_with_many_underscores_is_searched_quickly() -> None:
    assert mask("password: " + "a_" * 95 + "1\n") == "password: «password»\n"


_MORE_TEXT = "\n\nWords of a long text that stay, with /usr/share/doc/of/a/very/long/path/to/see"


@pytest.mark.parametrize("after", ["\n-----\nSee below.", "\n\n-------- Forwarded\n", "\n\nSee below - that is all."])
def test_key_without_a_last_line_is_masked_and_other_text_stays(after: str) -> None:
    for head in ("", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,7F\n\n"):
        text = mask(f"-----BEGIN RSA PRIVATE KEY-----\n{head}{_BODY}{after}")
        assert text == f"-----BEGIN RSA PRIVATE KEY-----«private key»{after}"
    two = f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}\n"
    assert _BODY[:64] not in mask(two + two)


def test_text_behind_a_mention_of_a_key_stays() -> None:
    text = f"See `-----BEGIN RSA PRIVATE KEY-----` at the start.{_MORE_TEXT * 20}\n"
    assert mask(text) == text


_parser: Any = importlib.import_module("re._parser")
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_WORD": _LETTERS + "_",
    "CATEGORY_SPACE": string.whitespace,
}


@functools.cache
def _letters_of(members: tuple[Any, ...]) -> str:
    """Return the printable ASCII letters of a class."""
    listed, is_negated = set(), False
    for kind, value in members:
        match str(kind):
            case "NEGATE":
                is_negated = True
            case "RANGE":
                listed |= {chr(letter) for letter in range(value[0], value[1] + 1)}
            case "CATEGORY":
                listed |= set(_CATEGORIES[str(value)])
            case _:
                listed.add(chr(value))
    return "".join(chr(letter) for letter in range(33, 127) if (chr(letter) in listed) != is_negated)


def _sampled(items: Any, lot: random.Random) -> str:
    """Return a random text of a parsed shape. Assertions are ignored, because some of the texts satisfy them."""
    text = ""
    for kind, value in items:
        match str(kind):
            case "LITERAL":
                text += chr(value)
            case "IN":
                text += lot.choice(_letters_of(tuple(value)))
            case "BRANCH":
                text += _sampled(lot.choice(value[1]), lot)
            case "SUBPATTERN":
                text += _sampled(value[-1], lot)
            case "MAX_REPEAT" | "POSSESSIVE_REPEAT" | "MIN_REPEAT":
                least, most, inside = value
                number = lot.randint(least, min(most, least + 40))
                if str(inside[0][0]) == "IN" and len(inside) == 1:
                    text += "".join(lot.choices(_letters_of(tuple(inside[0][1])), k=number))
                else:
                    text += "".join(_sampled(inside, lot) for _ in range(number))
            case other:
                assert other in {"ASSERT", "ASSERT_NOT"}
    return text


def _samples(rule: SecretRule, number: int) -> list[tuple[str, tuple[int, int]]]:
    """Return random tokens of a rule, each with start and end of its secret."""
    lot, shape = random.Random(rule.shape), _parser.parse(rule.shape)
    drawn: list[tuple[str, tuple[int, int]]] = []
    for _ in range(200 * number):
        if match := rule.pattern.fullmatch(_sampled(shape, lot)):
            drawn.append((match[0], match.span(match.lastgroup or 0)))
            if len(drawn) == number:
                return drawn
    raise AssertionError(f"{rule.name}: the shape has no samples")


_CONTEXTS = (
    *("{}", 'key = "{}"', "export KEY='{}'", '{"a": "{}", "b": 1}', "key: {}", "| name | {} | note |", "see `{}` here"),
    *("Authorization: Bearer {}", "https://weir.example/a?x=1&b={}&c=2", "curl -H 'X-Key: {}' https://weir.example"),
    *(
        'print("a\\n{}")',
        "a%3D{}",
        "a\\u003d{}",
        "a\x1b[1;32m{}\x1b[0m",
        "a=3D{}",
        "<value>{}</value>",
        "({})",
        "It was {}.",
    ),
    *("2026-01-02T03:04:05Z INFO key={} done", "令牌：{}。"),
)
_FORMATS = [rule for rule in RULES if rule.scope in {Scope.START, Scope.WORD} and "check" not in rule.holds.__name__]


def test_token_of_every_format_is_masked_in_every_context() -> None:
    assert len(_FORMATS) > 310
    missed = []
    for rule in _FORMATS:
        cases = [(*context.split("{}"), *sample) for sample in _samples(rule, 30) for context in _CONTEXTS]
        lines = mask("\n".join(f"{before}{token}{after}" for before, after, token, _ in cases)).split("\n")
        for line, (before, after, token, (start, stop)) in zip(lines, cases, strict=True):
            is_kept = line.startswith(before) and f"{token[stop:]}{after}".endswith(line.rpartition("»")[2])
            if token[start:stop] in line or "»" not in line or not is_kept:
                missed.append((rule.name, f"{before}{token}{after}", line))
    assert missed == []


def test_every_rule_has_a_case_here() -> None:
    kinds = {rule.name for rule in _FORMATS} | _ONLY_IN_PART.keys()
    assert {rule.name for rule in RULES} == kinds
    assert len(kinds) > 300


def test_the_documentation_lists_every_kind() -> None:
    text = (Path(__file__).parents[2] / "docs" / "masked-secrets.md").read_text(encoding="utf-8")
    issuers, kinds = _documented_issuers(text), {rule.name for rule in RULES}
    assert [kind for kind in sorted(kinds - issuers) if f"`{kind}`" not in text] == []
    assert issuers - kinds == set()


def _documented_issuers(text: str) -> set[str]:
    """Return the kinds of the lists, such as `- **key**: Neon; Stripe (ephemeral, test).`; `others` are whole names."""
    kinds = set()
    lists = text.partition("## Recognized by the issuer's format\n")[2].partition("\n## ")[0]
    for noun, entries in re.findall(r"^- \*\*(\w+)\*\*: (.+?)\.$", lists, re.MULTILINE | re.DOTALL):
        for entry in " ".join(entries.split()).split("; "):
            issuer, _, parts = entry.rstrip(")").partition(" (") if noun != "others" else (entry, "", "")
            names = [f"{issuer} {part}" for part in parts.split(", ")] if parts else [issuer]
            kinds |= {name if noun == "others" else f"{name} {noun}" for name in names}
    return kinds


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
        'SECRET_NAME = "weir-tls-secret-2026-production"\ntoken = base64url_decode4\nkey = sha256_hmac_v2_of_message',
        'pwd: /home/ada/weir2\n$pass = $_POST["password1"]',
        '"secretsmanager": "fee5173a-3972-428e-ae73-cd4c2a371222"\n"AccessKey": "62d91b17309e76c8"',
        "public_key: 7dq2m9ZkP4xW8cR1tV6bN3hJ5sL0yFgA\nmonkey: h8Gh29dkLqPz81Mn72Hs\ntokenizer: h8Gh29dkLqPz81",
        "curl -u $USER:$PASSWORD https://weir.org; curl -u ada:password https://weir.org; sshpass -p my_password ssh",
        "Authorization: Bearer <your token>\nAuthorization: Basic dXNlcjpwYXNz",
        "machine HOST login USER password PASSWORD",
        "5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTK is a key with a wrong checksum",
        "-----BEGIN RSA PRIVATE KEY-----\n' + b64encode(der)\n + some_function(of_many, arguments, and_words) + '",
        '"confirm_password": "パスワードの確認",\n"new_password": "输入新密码以继续"',
        '"pass": "要素に0より大きいtabindexは存在しません"',
        '"password": "пароль", "reset_password": "zurücksetzen", "wachtwoord": "wachtwoord"',
        'path = path.replace(pwd, "[blue].[/blue]", 1)\npassword: [hidden9]',
        f"https://rr2.video.example/videoplayback?expire=1&sig={'aB3dE5fG7h' * 4}aB3d",
        "cat password | base64; echo $PASSWORD | sha256sum\nBOX_FOR_TOKEN | BOX_FOR_URI9_AND_MODULE8, a",
        "docker run -p 8080:80 login; unzip -p archive.zip; mysql -u root -p gauge; ssh login -p 2222",
        "| name | password | note |\n|---|---|---|\n| a | yes | x9 |\n| b | required | y8 |",
        "user, password\nhost9, gauge9\n\nhost,password\nsyn\tpasswd\nsyn\tpop3\n",
        "The password must have been used once more with that.\npassword: must have been used",
        "file.c:5432:12:error: in line9\nDHE-PSK:!RC4:!ADH9\napplication/x-pw:*.p9w",
        f"numpy/ufunc.pyi,sha256=sk_{'aB3dE5fG7h' * 4},1346",
        "mailto:ada@example.org at 10:30, see http://example.org:8080/@ada",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    found: Counter[str] = Counter()
    assert mask(text, found) == text
    assert found == {}


def test_no_false_positives_in_the_example_vault_and_sources() -> None:
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


def test_document_counts_masked_secrets_and_retains_none() -> None:
    secret = f"ghp_{_drawn(36)}"
    key = _drawn(30) + "7q"
    note = f"---\ntoken: {secret}\napi_key: {key}\ndeep: [{{a: [{secret}]}}]\n---\n# {secret}\n\nSee `{secret}`.\n"
    document = masked(normalize(RawContent(note.encode(), "note.md")))
    assert secret not in repr(document)
    assert key not in repr(document.properties)
    assert document.warnings[-1].startswith("masked secrets: ")
    assert "GitHub token" in document.warnings[-1]


def _filled(hint: Any, secret: str, depth: int = 3) -> Any:
    """Return a value of a type in which each text is a secret: each field of each class, at each depth."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is str:
        return f"a {secret} b"
    if hint is Any:
        return (
            {secret: _filled(Any, secret, depth - 1), "deep": [secret, {"key": (secret,)}]}
            if depth
            else f"__{secret}__"
        )
    if origin is tuple:
        return tuple(_filled(each, secret) for each in inside if each is not ...)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {secret: _filled(inside[1], secret), "lang": _filled(inside[1], secret)}
    if origin is UnionType:
        return _filled(inside[0], secret)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return hint(**{name: _filled(each, secret) for name, each in get_type_hints(hint).items()})
    if hint is bytes:
        return b""
    return next(iter(hint)) if issubclass(hint, Enum) else datetime.now(UTC) if hint is datetime else hint(7)


@pytest.mark.parametrize("kind", [Document, Extraction, Read])
def test_no_field_of_what_is_stored_keeps_a_secret(kind: Any) -> None:
    secret = "AKIA" + _drawn(16, string.ascii_uppercase)
    hints = {name: str if get_origin(hint) is Literal else hint for name, hint in get_type_hints(kind).items()}
    value = kind(**{name: _filled(hint, secret) for name, hint in hints.items()})
    assert repr(value).count(secret) >= len(
        [hint for hint in hints.values() if hint not in (bytes | None, datetime | None)]
    )
    cleaned = without_secrets(value)
    assert secret not in repr(cleaned)
    assert type(cleaned) is type(value)
    if kind is Extraction:
        assert [chunk[:2] for chunk in cleaned.chunks] == [chunk[:2] for chunk in value.chunks]


def test_secrets_in_keys_language_and_bold_text_of_a_note_are_not_stored() -> None:
    secret = f"ghp_{_drawn(36)}"
    front = f"{secret}: 1\nlang: {secret}\npassword: [hunter2hunter2]\npin_password: 20261234567\ntags: [{secret}]"
    note = f"---\n{front}\n---\n# A\n\n__{secret}__ [[{secret}]]\n"
    task = ReadTask(
        Item("a.md", "", "1"), b"", RawContent(note.encode(), f"{secret}.md", title=secret, metadata={"x": [secret]})
    )
    reading = read(task)
    assert secret.encode() not in reading
    assert b"hunter2hunter2" not in reading
    assert b"20261234567" not in reading
    document = Read.decode(reading).document
    assert document is not None
    assert secret.encode() not in extract_document(document)
    text, extraction = decode_document(document).text, decode_extraction(extract_document(document))
    assert all(text[link.start : link.end].startswith("[[") for link in extraction.links if link.end)


def test_a_document_without_secrets_is_the_same_object() -> None:
    document = Document("Plain words.", "text/markdown", properties={"tags": ["a"]})
    assert masked(document) is document


@pytest.mark.full
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece",
    [
        *("eyJ", "aws", "a://b:", 'token="', "ghp_", "sk-", "0:aa"),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY----- -"),
        *(
            "password=",
            "password",
            "token ",
            "key",
            "pwd: ",
            "curl -u ",
            "machine a login b ",
            "authorization: bearer ",
        ),
        *("password: Xk.", "pass=b7,", "pw: **a", "<pass a", 'a,pass\nb,"\n', "-----BEGIN PRIVATE KEY-----\n-AAAA"),
        *("password: sonnenblume; ", "pwd: sonnenblume // ", "\\n", "%3D", "-----BEGIN PRIVATE KEY-----\n" + "A" * 40),
        *("otpauth://7", "7" * 16 + " ", "a7b8c9:", "-7", "_auth=", "a/b7.c", 'secret",' * 2),
        *(
            "password|",
            "password | ",
            "password,",
            "password,\n",
            "a,password\nb,\n",
            "password\t",
            "密码：",
            "密码",
        ),
        *(
            "mysql -p",
            "login -p ",
            " -u a:",
            "htpasswd -b ",
            "net use \\\\a ",
            "identified by a",
            "WIFI:A:\\;",
            ":5432:a:b:",
        ),
        *(
            '"kty":"a","d":"',
            '{"kty":{"d":',
            "U0VDUkVU",
            "U0VDUkVU\n",
            "sr=a&sig=",
            "sk-a-",
            "[1m",
            "_2aB3cD4",
            "A_PAT=",
            "İ",
        ),
    ],
)
def test_adversarial_text_is_scanned_in_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert mask(text, Counter()) == text
