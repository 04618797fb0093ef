"""Rules that recognize secrets: a table of token formats by issuer, and the common notations of passwords.

A rule has a name, hints and a shape. Ambiguous shapes need further evidence: a checksum, randomness or the words around
them, which `secret_checks` examines. docs/privacy.md lists the kinds. Masking is in `secret_masking`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from catchment.content.secret_checks import (
    IN_BASE58,
    has_base58_check,
    has_bech32_check,
    is_authorization,
    is_credential,
    is_key,
    is_named,
    is_named_key,
    is_named_password,
    is_named_secret,
    is_no_filler,
    is_no_name,
    is_random_match,
)


class Scope(Enum):
    """The text in which the hints of a rule are looked for, which keeps the search fast."""

    START = auto()
    """The start of a word: each token begins with a hint."""
    WORD = auto()
    """A long word: the secret and its hint are one."""
    TEXT = auto()
    """The whole text."""
    NAME = auto()
    """None: the pattern applies to lower-case text and begins with a literal word."""


class SecretRule(NamedTuple):
    """A kind of secret. The secret is the last named group of `pattern` that matches, or the whole match without groups.

    `hints`: at least one occurs in or before each secret. `holds`: returns whether a match is a secret.
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[re.Match[str], str], bool]
    scope: Scope = Scope.WORD


# Shapes are regular expressions with %a: letter or digit, %w: also - and _, %h: lower hexadecimal, %u: capital or digit,
# %l: small letter or digit, %i: UUID. %n: a token is not made of words, as names are.
_MACROS = {
    "%a": "[A-Za-z0-9]",
    "%w": "[A-Za-z0-9_-]",
    "%h": "[a-f0-9]",
    "%u": "[A-Z0-9]",
    "%l": "[a-z0-9]",
    "%i": "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",
    "%n": "",
}

# Name, hints and shape, separated by two or more spaces. A line that begins with a tilde continues the one above.
_TOKENS = r"""
    1Password service token      ops_eyJ         ops_eyJ%w{200,2000}=*
    1Password secret key         A3-             A3-%u{6}-(?:%u{6}-%u{5}|%u{11})(?:-%u{5}){3}
    Adafruit key                 aio_            aio_%a{28}
    Adobe secret                 p8e-            p8e-%l{32}
    Airtable token               pat             pat%a{14}\.%h{64}
    Alibaba key id               LTAI            LTAI%a{16,24}
    Anthropic key                sk-ant-         sk-ant-%w{40,200}
    Apify token                  apify_api_      apify_api_%a{36}
    Artifactory token            AKCp            AKCp%a{66,80}
    Artifactory reference token  cmVmdGtu        cmVmdGtu%a{56}
    Asana token                  1/ 2/           [12]/[0-9]{13,20}(?:/[0-9]{13,20})?:%h{32}
    Atlassian token              ATATT3 ATCTT3   (?:ATATT3|ATCTT3)%w{100,250}=%u{8}
    AWS Bedrock key              ABSK            ABSK[A-Za-z0-9+/]{100,280}=*
    AWS key id  AKIA ASIA ABIA ACCA  (?:AKIA|ASIA|ABIA|ACCA)(?!%u{9}EXAMPLE)%u{16}
    AWS marketplace key          amzn.mws.       amzn\.mws\.%i
    Azure app secret             Q~              [A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}
    Azure DevOps token           AZDO            %a{76}AZDO%a{4}
    Azure function key           AzFu            %w{44}AzFu[A-P]%a{5}==
    Azure search key             AzSe            %a{42}AzSe[A-D]%a{5}
    Azure cache key              AzCa            %a{33}AzCa[A-P]%a{5}=
    Azure storage key            +ASt            [A-Za-z0-9+/]{76}\+ASt%a{5}==
    Azure batch key              +ABa            [A-Za-z0-9+/]{76}\+ABa%a{5}==
    Azure Cosmos DB key          ACDb            [A-Za-z0-9+/]{76}ACDb%a{5}==
    Azure registry key           +ACR            [A-Za-z0-9+/]{42}\+ACR[A-D]%a{5}
    Azure event key  AIoT +ASb +AEh +ARm  [A-Za-z0-9+/]{33}(?:AIoT|\+ASb|\+AEh|\+ARm)[A-P]%a{5}=
    Beamer key                   b_              b_%n[a-z0-9=_/-]{44}
    Bitbucket password           ATBB            ATBB%a{32}
    Braintree token              access_token$   access_token\$(?:production|sandbox)\$%l{16}\$%h{32}
    Brevo key  xkeysib- xsmtpsib-  (?:xkeysib-|xsmtpsib-)%h{64}-%a{16}
    Buildkite token              bkua_           bkua_%h{40}
    Cerebras key                 csk-            csk-%l{48}
    CircleCI token               CCIP            CCIP(?:AT|RJ)_%a{20,24}_%h{40}
    ClickUp token                pk_             pk_[0-9]{5,12}_%u{32}
    Clojars token                CLOJARS_        CLOJARS_%l{60}
    Cloudflare origin key        v1.0-           v1\.0-%h{24}-%h{146}
    Contentful token             CFPAT-          CFPAT-%w{43}
    crates.io token              cio             cio%a{32}
    Databricks token             dapi            dapi%h{32}(?:-[0-9])?
    dbt token                    dbtc_ dbtu_     (?:dbtc_|dbtu_)%w{40,60}
    DigitalOcean token  dop_v1_ doo_v1_ dor_v1_  (?:dop_v1_|doo_v1_|dor_v1_)%h{64}
    Discord token                .               [MNO]%n%w{23,27}\.%w{6}\.%w{27,40}
    Discord multi-factor token   mfa.            mfa\.%w{80,90}
    Docker token                 dckr_           dckr_(?:pat|oat)_%w{27,36}
    Doppler token                dp.             dp\.(?:pt|ct|st|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?%a{40,44}
    Dropbox token                sl.             sl\.(?:u\.)?%w{130,1500}
    Duffel token                 duffel_         duffel_(?:test|live)_[A-Za-z0-9_=-]{43}
    Dynatrace token              dt0             dt0[a-z]\d\d\.%u{24}\.%u{64}
    EasyPost key                 EZAK EZTK       (?:EZAK|EZTK)%a{54}
    Facebook token               EAA             EAA(?:CEdEose0cBA%a{10,300}|[A-Z]%a{90,300})
    Figma token  figd_ figdr_ figu_ figur_ figo_ figor_  (?:figd_|figdr_|figu_|figur_|figo_|figor_)%w{38,60}
    Firebase server key          AAAA            AAAA%w{7}:APA91b%w{130,140}
    Firecrawl key                fc-             fc-%h{32}
    Fireworks key                fw_             fw_%a{22,24}
    Flutterwave key              FLWSECK         FLWSECK(?:_TEST)?-%a{12,32}-X
    Fly.io token  fm1 fm2_ fo1_  (?:fo1_%w{43}|fm1[ar]_[A-Za-z0-9+/]{100,800}={0,3}|fm2_[A-Za-z0-9+/]{100,800}={0,3})
    Frame.io token               fio-u-          fio-u-[A-Za-z0-9=_-]{64}
    GitHub token                 ghp_            ghp_%a{36,255}
    GitHub OAuth token           gho_            gho_%a{36,255}
    GitHub app token             ghu_ ghs_       (?:ghu_|ghs_)%a{36,255}
    GitHub refresh token         ghr_            ghr_%a{36,255}
    GitHub fine-grained token    github_pat_     github_pat_%a{22}_%a{59}
    GitLab token                 glpat-          glpat-%w{20,300}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?
    GitLab deploy token          gldt-           gldt-%w{20,64}
    GitLab runner token  glrt- glrtr- GR1348941  (?:glrt-|glrtr-|GR1348941)(?:t\d_)?%w{20,64}(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?
    GitLab job token             glcbt-          glcbt-(?:%h{1,5}_)?%w{20,64}
    GitLab trigger token         glptt-          glptt-%h{40}
    GitLab feed token            glft-           glft-(?:%h{64}-\d{1,9}|%w{20,64})
    GitLab mail token            glimt-          glimt-%w{25,64}
    GitLab agent token           glagent-        glagent-%w{50,1024}
    GitLab OAuth secret          gloas-          gloas-%h{64}
    GitLab SCIM token            glsoat-         glsoat-%w{20,64}
    GitLab feature token         glffct-         glffct-%w{20,64}
    GoCardless token             live_ sandbox_  (?:live_|sandbox_)%n%w{40}
    Google Chat webhook  chat.googleapis.com  chat\.googleapis\.com/v1/spaces/%w{8,20}/messages\?key=(?P<secret>AIza%w{35}
    ~&token=%w{40,60})
    Google key                   AIza            AIza%w{35}
    Google OAuth secret          GOCSPX-         GOCSPX-%w{28}
    Google access token          ya29.           ya29\.%w{30,400}
    Google refresh token         1//0            1//0%w{40,100}
    Grafana service token        glsa_           glsa_%a{32}_%h{8}
    Grafana cloud token          glc_            glc_[A-Za-z0-9+/]{32,400}={0,3}
    Groq key                     gsk_            gsk_%a{52}
    Harness token                pat. sat.       (?:pat\.|sat\.)%w{22}\.%a{24}\.%a{20}
    Heroku token                 HRKU-           HRKU-(?:AA%w{58}|%i)
    Honeycomb key                hca hcx         (?:hca|hcx)[il][kc]_%a{50,64}
    HubSpot token                pat-            pat-(?:na|eu)\d-%i
    Hugging Face token           hf_             hf_%a{34,40}
    Hugging Face org token       api_org_        api_org_%a{34}
    Infracost key                ico-            ico-%a{32}
    Instagram token              IGQ IGAA        (?:IGQ[A-Z]|IGAA)%w{100,300}
    JetBrains token              perm: perm-     (?:perm:|perm-)[A-Za-z0-9+/=]{6,60}\.[A-Za-z0-9+/=]{4,60}\.%a{30,60}
    Jina key                     jina_           jina_%a{60}
    Langfuse key                 sk-lf-          sk-lf-%i
    LangSmith key                lsv2_           lsv2_(?:pt|sk)_%h{32}_%h{10}
    LaunchDarkly key             api- sdk- mob-  (?:api-|sdk-|mob-)%i
    Lichess token                lip_            lip_%a{20}
    Linear key                   lin_            lin_(?:api_%a{40}|oauth_%h{64})
    LinkedIn secret              WPL_AP1.        WPL_AP1\.%a{16}\.[A-Za-z0-9+/]{6,8}={0,2}
    Mailchimp key                -us             %h{32}-us\d{1,2}
    Mailgun key                  key- pubkey-    (?:key-|pubkey-)%h{32}
    Mailgun sending key          -               %h{32}-%h{8}-%h{8}
    Mandrill key                 md-             md-%n%w{22}
    Mapbox token                 sk.eyJ          sk\.eyJ%w{50,300}\.%w{20,40}
    Matrix token                 syt_            syt_%w{4,60}_%a{20}_%a{6}
    Mercado Pago token           APP_USR-        APP_USR-\d{10,20}-\d{6}-%h{32}-\d{5,12}
    Mollie key                   live_ test_     (?:live_|test_)%n%a{30}
    Neon key                     napi_           napi_%l{64}
    Netlify token  nfp_ nfc_ nfo_ nfu_  (?:nfp_|nfc_|nfo_|nfu_)%a{36}
    New Relic user key           NRAK-           NRAK-%u{27}
    New Relic query key          NRIQ- NRII-     (?:NRIQ-|NRII-)%w{32}
    New Relic REST key           NRRA-           NRRA-%h{42}
    New Relic browser key        NRJS-           NRJS-%h{19}
    New Relic license key        NRAL            %h{36}NRAL
    Notion token                 ntn_            ntn_%a{46}
    Notion secret                secret_         secret_%a{43}
    npm token                    npm_            npm_%a{36}
    NuGet key                    oy2             oy2%l{43}
    NVIDIA key                   nvapi-          nvapi-%w{60,70}
    OpenRouter key               sk-or-v1-       sk-or-v1-%h{64}
    OpenAI key                   sk-             sk-(?:proj-|svcacct-|admin-)?%n%w{40,200}
    OpenShift token              sha256~         sha256~%w{43}
    Packagist token              packagist_      packagist_(?:ort|uut|ack)_%h{12,80}
    Perplexity key               pplx-           pplx-%a{48,56}
    Pinecone key                 pcsk_           pcsk_%a{5,6}_%a{60,64}
    Plaid token                  access-         access-(?:sandbox|development|production)-%i
    PlanetScale token            pscale_         pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{31,63}[A-Za-z0-9_=-]
    PostHog key                  phx_ phs_       (?:phx_|phs_)%a{43,50}
    Postman key                  PMAK-           PMAK-%h{24}-%h{34}
    Postman collection key       PMAT-           PMAT-%u{26}
    Prefect key                  pnu_ pnb_       (?:pnu_|pnb_)%a{36}
    Pulumi token                 pul-            pul-%h{40}
    PyPI token                   pypi-AgE        pypi-AgE%w{50,400}
    Razorpay key                 rzp_            rzp_(?:live|test)_%a{14}
    ReadMe key                   rdme_           rdme_%l{70}
    Render key                   rnd_            rnd_%a{28,32}
    Replicate token              r8_             r8_%a{37}
    Resend key                   re_             re_%a{8}_%a{24}
    RubyGems key                 rubygems_       rubygems_%h{48}
    Salesforce token             00D             00D%a{12,15}![A-Za-z0-9_.]{80,120}%a
    Samsara token                samsara_api_    samsara_api_%a{30}
    Scalingo token               tk-us-          tk-us-%w{48}
    SendGrid key                 SG.             SG\.%w{22}\.%w{43}
    Sentry org token             sntrys_         sntrys_eyJ[A-Za-z0-9+/=_-]{80,400}
    Sentry user token            sntryu_         sntryu_%h{64}
    Shippo token                 shippo_         shippo_(?:live|test)_%h{40}
    Shopify token                shp             shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32}
    Slack token                  xox             xox[abeoprs]-[0-9]{6,15}-[A-Za-z0-9-]{10,200}
    Slack app token              xapp-           xapp-\d-%u{8,14}-\d{10,15}-%h{32,80}
    Slack rotating token         xoxe            xoxe(?:\.xox[bp])?-\d-%a{100,200}
    Snyk token                   snyk_           snyk_(?:uat|sat)\.%h{8}\.%w{30,200}(?:\.%w{20,100})?
    SonarQube token              sqp_ squ_ sqa_  (?:sqp_|squ_|sqa_)%h{40}
    Sourcegraph token            sgp_ slk_       (?:sgp_|slk_)(?:(?:%h{16}_|local_)?%h{40}|%h{64})
    Square token                 sq0atp-         sq0atp-%w{22}
    Square secret                sq0csp-         sq0csp-%w{43}
    Square access token          EAAA            EAAA%w{60}
    Stripe key  sk_live_ rk_live_  (?:sk_live_|rk_live_)%a{20,120}
    Stripe test key  sk_test_ rk_test_  (?:sk_test_|rk_test_)%a{20,120}
    Stripe webhook secret        whsec_          whsec_[A-Za-z0-9+/=]{32,64}
    Supabase token               sbp_            sbp_(?:oauth_)?%h{40}
    Supabase secret key          sb_secret_      sb_secret_%w{22,40}
    Tailscale key                tskey-          tskey-(?:(?:auth|api|client|scim|webhook)-)?%a{10,24}-%a{20,40}
    Tavily key                   tvly-           tvly-(?:dev-|prod-)?%a{32}
    Telegram token               :AA             [0-9]{8,10}:AA%w{33}
    Tencent key id               AKID            AKID%a{32}
    Terraform token              .atlasv1.       %a{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}
    Together key                 tgp_v1_         tgp_v1_%w{43}
    Trello token                 ATTA            ATTA%h{72}
    Twilio key                   SK              SK%h{32}
    Twitter bearer token  AAAAAAAAAAAAAAAAAAA  A{19,22}(?=%a{5,99}%[23])[A-Za-z0-9%]{50,120}
    Typeform token               tfp_            tfp_%w{40,60}
    Vault token                  hvs.            hvs\.%w{24,200}
    Vault batch token            hvb.            hvb\.%w{100,300}
    Vault recovery token         hvr.            hvr\.%w{24,200}
    Vercel token  vcp_ vci_ vca_ vcr_ vck_  (?:vcp_|vci_|vca_|vcr_|vck_)%a{50,60}
    Vercel blob token  vercel_blob_rw_  vercel_blob_rw_%a{16}_%a{30}
    VK token                     vk1.a.          vk1\.a\.%w{80,260}
    Voyage key                   pa-             pa-%n%w{43}
    WakaTime key                 waka_           waka_%i
    xAI key                      xai-            xai-%a{80}
    Yandex key                   AQVN            AQVN%w{35,38}
    Zapier webhook  hooks.zapier.com  hooks\.zapier\.com/hooks/catch/\d{5,10}/(?P<secret>%a{6,10})
    Zuplo key                    zpka_           zpka_%h{32}_%h{8}
    age key  AGE-SECRET-KEY-1  AGE-SECRET-KEY-1%u{58}
    JSON web token               eyJ             eyJ%w{10,2000}+\.eyJ%w{10,4000}+\.%w{16,1000}+
    Slack webhook  hooks.slack.com/  hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[TE]%u{6,12}/[A-Z0-9]{6,14}/
    ~%a{16,40}(?:/%a{16,40})?)
    Discord webhook              /api/webhooks/  discord(?:app)?\.com/api/webhooks/\d{17,20}/(?P<secret>%w{60,72})
    Teams webhook  webhook.office.com  webhook\.office\.com/webhookb2/%i@%i/IncomingWebhook/(?P<secret>%h{32}/%i(?:/%w{40,60})?)
    Azure key  AccountKey= SharedAccessKey=  (?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{42,86}={1,2})
    Azure signature              sig=            [?&](?:amp;)?sig=(?P<secret>[A-Za-z0-9%+/_-]{40,70}(?:%3[dD]|=)?)
    AWS signature  X-Amz-Signature=  X-Amz-Signature=(?P<secret>%h{64})
    Sentry key                   sentry.io       https://%h{32}:(?P<secret>%h{32})@[\w.-]{0,60}sentry\.io
    one-time password seed       otpauth://      otpauth://[^\s"'<>]{1,300}?secret=(?P<secret>[A-Za-z2-7]{16,128}=*)
    Django key  django-insecure-  django-insecure-(?P<secret>[^\s"']{40,60})
    Laravel key  APP_KEY=base64:  APP_KEY=base64:(?P<secret>[A-Za-z0-9+/]{43}=)
"""

_LETTER_OR_DIGIT = "[A-Za-z0-9]"
BOUNDARY = f"(?<!{_LETTER_OR_DIGIT})(?<!{_LETTER_OR_DIGIT}_)"
"""Asserts that no longer word includes the text that follows; `__` marks bold text and bounds words."""

_FIRST = re.compile(r"(\w|\[[^]]*\])(?:\{(\d+)\})?(?![?*+{])")


def _expanded(shape: str) -> str:
    for macro, meaning in _MACROS.items():
        shape = shape.replace(macro, meaning)
    return shape


def _bounded(shape: str) -> re.Pattern[str]:
    """Return a pattern for a shape that is not part of a longer word.

    `BOUNDARY` is asserted after the first character, because a search that starts with a character is quick.
    """
    after = "" if shape.endswith("=") else f"(?!_?{_LETTER_OR_DIGIT})"
    first = _FIRST.match(shape)
    start, rest = (first[1], shape[first.end() :]) if first else ("", shape)
    if first and first[2]:
        rest = f"{start}{{{int(first[2]) - 1}}}{rest}"
    return re.compile(f"{start}(?<!{_LETTER_OR_DIGIT}{start})(?<!{_LETTER_OR_DIGIT}_{start}){rest}{after}")


def _token(row: str) -> SecretRule:
    name, words, shape = re.split(r" {2,}", row.strip(), maxsplit=2)
    hints, first = tuple(words.split()), shape.removeprefix("(?:").partition(")")[0].replace("\\", "")
    holds = is_no_name if "%n" in shape else is_no_filler
    starts = all(any(start.startswith(hint) for start in first.split("|")) for hint in hints)
    shape = _expanded(shape)
    pattern = re.compile(shape) if shape.startswith("[?&]") else _bounded(shape)
    return SecretRule(name, hints, pattern, holds, Scope.START if starts else Scope.WORD)


def _checked(name: str, hints: str, shape: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a token with a checksum."""
    return SecretRule(name, tuple(hints.split()), _bounded(shape), holds)


_GAP = r"[^A-Za-z0-9+/=-]{1,20}+"
_KEY_LINES = rf"(?>(?:{_GAP}[A-Z][A-Za-z-]{{2,20}}+: [^\n\\]{{1,200}}+){{0,5}})(?>(?:{_GAP}[A-Za-z0-9+/=]{{20,}}+)+)"
"""The lines of a key without a last line: fields, then lines of base64, however they are quoted."""


def _private_key(first: str, kind: str, *hints: str) -> SecretRule:
    """Return a rule for the body of a key: from its first line to its last line, or to the end of its lines of base64.

    `first` is the first line with {} in place of the kind of key.
    """
    dashes = first.partition("BEGIN")[0].strip()
    last = first.replace("BEGIN", "END")
    return SecretRule(
        "private key",
        hints,
        re.compile(
            first.format(f"(?P<kind>{kind})")
            + f"(?:(?P<secret>(?>(?:[^-]++|-(?!{dashes[1:]})){{1,10000}})){last.format('(?P=kind)')}|(?P<lines>{_KEY_LINES}))"
        ),
        is_key,
        Scope.TEXT,
    )


_VALUE = (
    r"(?:\\{0,3}[bru@]?(?:\"(?P<double>[^\s\"'`]{4,200}+)\"|'(?P<single>[^\s\"'`]{4,200}+)'|`(?P<ticked>[^\s\"'`]{4,200}+)`)"
    r"|(?P<bare>[^\s\"'`,;<>()\[\]{}|&]{4,200}+)(?=[\s,;\"'`<)\]}|&]|\Z))"
)
_ASSIGNED = (
    r"(?P<suffix>[\w-]{0,24}+)[\\\"'`\]*]{0,5}"
    r"(?:(?:[ \t]{0,8}(?::[ \t]?[a-z][\w.]{0,20}[ \t]=|:=|=>|[:=]{1,3})[*_]{0,2}|[\s,]{1,40}+[\"']?value[\"']?[:=])"
    rf"[ \t]{{0,8}}{_VALUE}"
    r"|[ \t]{0,3},[ \t]{0,3}[\"'](?P<argument>[^\s\"'`]{4,200}+)[\"']|>(?P<element>[^\s<>]{4,200}+)</"
    r"|[ \t][\"']?(?P<option>[^\s\"'`,;<>()\[\]{}|&]{4,200}+)(?=[\s\"'`]|\Z))"
)


def _assigned(name: str, words: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a value that is assigned to one of these names."""
    return SecretRule(name, (), re.compile(words + _ASSIGNED), holds, Scope.NAME)


def _after(name: str, pattern: str, holds: Callable[[re.Match[str], str], bool]) -> SecretRule:
    """Return a rule for a secret that follows certain words; the pattern applies to lower-case text."""
    return SecretRule(name, (), re.compile(pattern), holds, Scope.NAME)


RULES: tuple[SecretRule, ...] = (
    _private_key(
        "-----BEGIN {}-----",
        r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1",
        "PRIVATE KEY-----",
        "PRIVATE KEY BLOCK-----",
        "Static key V1-----",
    ),
    _private_key("---- BEGIN {} ----", r"SSH2 (?:ENCRYPTED )?PRIVATE KEY", "PRIVATE KEY ----"),
    SecretRule(
        "private key",
        ("Private-Lines:",),
        re.compile(r"Private-Lines: [0-9]{1,4}\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{1,200}\r?(?:\n|\Z)){1,1000})"),
        lambda _match, _text: True,
        Scope.TEXT,
    ),
    *(_token(row) for row in _TOKENS.replace("\n    ~", "").strip().split("\n")),
    _checked(
        "Bitcoin key",
        "5H 5J 5K Kw Kx Ky Kz L1 L2 L3 L4 L5",
        f"(?:5[HJK]|K[w-z]|L[1-5])[{IN_BASE58}]{{49,50}}",
        has_base58_check,
    ),
    _checked("Bitcoin extended key", "prv", f"[xyztuv]prv[{IN_BASE58}]{{107,108}}", has_base58_check),
    _checked("Nostr key", "nsec1", "nsec1[02-9ac-hj-np-z]{58}", has_bech32_check),
    SecretRule(
        "password",
        ("://",),
        re.compile(r"://[A-Za-z0-9._%+-]{0,64}+:(?P<secret>[^\s/@:\"'<>]{3,128}+)@(?=[A-Za-z0-9\[])"),
        is_credential,
        Scope.TEXT,
    ),
    _after(
        "AWS secret key",
        r"aws.{0,20}?(?:secret|key).{0,20}?[=:]\s{0,3}[\"']?(?P<secret>[a-z0-9/+]{40})(?![a-z0-9/+=])",
        is_random_match,
    ),
    _after(
        "authorization",
        r"auth(?:orization[\"'\]]{0,3}[ \t]{0,3}[:=,][ \t]{0,3}[\"'`]?(?:(?:bearer|token|apikey|bot|digest)[ \t]{1,3}"
        r"(?P<secret>[a-z0-9._~+/=-]{16,2000}+)|basic[ \t]{1,3}(?P<login>[a-z0-9+/]{8,400}+={0,2}))"
        r"|[ \t]{0,3}=[ \t]{0,3}[\"']?(?P<npm>[a-z0-9+/]{8,400}+={0,2}))",
        is_authorization,
    ),
    _after(
        "password",
        r"curl [^\n]{0,120}?(?:-u|--user|--proxy-user)[ =][\"']?[^\s:\"'$]{1,60}:(?P<secret>[^\s\"'@]{4,128}+)",
        is_credential,
    ),
    _assigned("password", r"pass(?:wor[dt]|wd|phrase|code| -p|(?<![a-z]pass))", is_named_password),
    _assigned("password", r"pwd", is_named_password),
    _assigned("secret", r"secret(?!smanager)", is_named_secret),
    _assigned("secret", r"token", is_named),
    _assigned("secret", r"key", is_named_key),
)
"""All rules in the order in which they are applied: rules for tokens of one issuer come first."""
