"""Addresses: one spelling for each page, and only http(s)."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import BadInput
from connectors.web.address import MOST_CHARACTERS, host_of, normalized

HOST = "https://river.example"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTPS://River.Example", f"{HOST}/"),
        ("https://river.example.", f"{HOST}/"),
        ("https://river.example:443/", f"{HOST}/"),
        ("http://river.example:0080/", "http://river.example/"),
        ("https://river.example:/", f"{HOST}/"),
        ("https://river.example:8443/", f"{HOST}:8443/"),
        ("  https://river.example/a\n ", f"{HOST}/a"),
        ("https://river.example/a\n  b", f"{HOST}/a%20%20b"),
        ("https://straße.example/", "https://xn--strae-oqa.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://пример.example/", "https://xn--e1afmkfd.example/"),
        ("https://river。example/", f"{HOST}/"),
        ("http://[2001:DB8:0::1]:8080/", "http://[2001:db8::1]:8080/"),
        ("http://192.0.2.1/", "http://192.0.2.1/"),
        ("http://nas_1.local:8080/", "http://nas_1.local:8080/"),
        (f"{HOST}/a/./b/../c", f"{HOST}/a/c"),
        (f"{HOST}/../../a/", f"{HOST}/a/"),
        (f"{HOST}/a/%2e%2E/b", f"{HOST}/b"),
        (f"{HOST}/a//b", f"{HOST}/a//b"),
        (f"{HOST}/a/..", f"{HOST}/"),
        (f"{HOST}/%7Eada/%e9%c3%a9", f"{HOST}/~ada/%E9%C3%A9"),
        (f"{HOST}/é", f"{HOST}/%C3%A9"),
        (f"{HOST}/50%/%zz", f"{HOST}/50%25/%25zz"),
        (f"{HOST}/a%2Fb", f"{HOST}/a%2Fb"),
        (f"{HOST}/a\\b", f"{HOST}/a%5Cb"),
        (f"{HOST}/?", f"{HOST}/"),
        (f"{HOST}?a=1", f"{HOST}/?a=1"),
        (f"{HOST}/?b=1&a=2&b=0", f"{HOST}/?b=1&a=2&b=0"),
        (f"{HOST}/?q=a b+c", f"{HOST}/?q=a%20b+c"),
        (f"{HOST}/?utm_source=x&id=1&UTM_Medium=y&fbclid=z&mc_eid=7", f"{HOST}/?id=1"),
        (f"{HOST}/?gclid=x", f"{HOST}/"),
        (f"{HOST}/?about=utm_source", f"{HOST}/?about=utm_source"),
        (f"{HOST}/a#part", f"{HOST}/a"),
        (f"{HOST}/#!/a", f"{HOST}/"),
    ],
)
def test_address_has_one_spelling(text: str, expected: str) -> None:
    assert normalized(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "/a", "river.example/a", "javascript:alert(1)", "file:///etc/passwd", "ftp://river.example/", "data:,x",
        "mailto:a@river.example", "https://", "https:///a", "https://user@river.example/", "https://u:p@river.example/",
        "https://river.example\\@other.example/", "https://river.example\\other", "https://river example/",
        "https://ri%76er.example/", "https://river.example:0/", "https://river.example:65536/", "https://river.example:x/",
        "http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://192.0.2.1.1/",
        "http://[::1/", "http://[::1%25eth0]/", "http://[v1.x]/", "https://a..example/", "https://☃.example/",
        "https://xn--a.example/", f"https://{'a' * 64}.example/", f"https://{'a.' * 130}example/", f"https://{'ü' * 99_999}/",
        "https://river.example/\x00", "https://river.example/\ud800", "https://river\x7f.example/",
        f"{HOST}/{'a' * MOST_CHARACTERS}",
    ],
)  # fmt: skip
def test_other_address_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="give one such as"):
        normalized(text)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("b", f"{HOST}/a/b"),
        ("/b", f"{HOST}/b"),
        ("../b?c", f"{HOST}/b?c"),
        ("?c", f"{HOST}/a/page?c"),
        ("#c", f"{HOST}/a/page"),
        ("", f"{HOST}/a/page"),
        ("//other.example/b", "https://other.example/b"),
        ("http://other.example", "http://other.example/"),
    ],
)
def test_link_is_relative_to_its_page(link: str, expected: str) -> None:
    assert normalized(link, f"{HOST}/a/page") == expected


@pytest.mark.parametrize("link", ["javascript:alert(1)", "mailto:a@river.example", "tel:1"])
def test_link_of_another_scheme_is_refused(link: str) -> None:
    with pytest.raises(BadInput):
        normalized(link, HOST)


@pytest.mark.parametrize(
    ("address", "expected"),
    [(f"{HOST}/a", "river.example"), ("http://nas.local:8080/", "nas.local:8080"), ("http://[::1]/", "[::1]")],
)
def test_host_has_its_port_if_that_is_unusual(address: str, expected: str) -> None:
    assert host_of(address) == expected


_PIECES = st.sampled_from(
    [
        *"/?#@:\\%&=.;[] \t\n",
        "..",
        "//",
        "http://",
        "https://",
        "river.example",
        "Ü",
        "ß",
        "%2e",
        "%2F",
        "%",
        "xn--",
        "a" * 70,
    ]
)


@given(
    st.one_of(st.lists(_PIECES, max_size=12).map("".join), st.text(max_size=40)).map("https://river.example".__add__)
)
def test_normalizing_again_changes_nothing_and_reaches_the_same_host(text: str) -> None:
    with suppress(BadInput):
        address = normalized(text)
        assert normalized(address) == address
        assert address.isascii() and len(address) <= MOST_CHARACTERS
        # The client must connect to the host whose consent was checked.
        url = httpx.URL(address)
        assert (url.raw_host.decode(), url.port) == (urlsplit(address).hostname, urlsplit(address).port)
        assert url.netloc.decode() == host_of(address)
        assert str(url) == address
