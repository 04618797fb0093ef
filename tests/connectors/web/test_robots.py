"""robots.txt as RFC 9309 rules."""

from __future__ import annotations

import pytest

from connectors.web.robots import verdict

SITE = "https://river.example"


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /a", "/ab", False),
        ("User-agent: *\nDisallow: /a", "/A", True),
        ("User-agent: *\nDisallow: /a/\nAllow: /a/b", "/a/b", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a/b", "/a/b", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf", "/x/a.pdf?b", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf?b", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf", False),
        ("User-agent: *\nDisallow: /a?b=", "/a?b=1", False),
        ("User-agent: *\nDisallow: /caf%C3%A9", "/caf%c3%a9", False),
        ("User-agent: *\nDisallow: /café", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: catch\nDisallow: /", "/a", True),
        ("User-agent: Catchment\nDisallow: /", "/a", False),
        ("User-agent: catchment/1.0\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: catchment\nDisallow: /b", "/a", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: catchment\nDisallow:", "/a", True),
        ("User-agent: other\nUser-agent: catchment\nDisallow: /a", "/a", False),
        ("User-agent: catchment\nDisallow: /a\n\nUser-agent: catchment\nDisallow: /b", "/a", False),
        ("User-agent: catchment\nDisallow: /b\n\nUser-agent: other\nDisallow: /a", "/a", True),
        ("\ufeffUser-agent: *\r\nDisallow: /a # not this\r\n", "/a", False),
        ("user-agent : *\rdisallow : /a", "/a", False),
        ("Sitemap: https://river.example/sitemap.xml\nDisallow: /a", "/a", True),
        ("<html><body>Not found: Disallow: /</body></html>", "/a", True),
    ],
)
def test_rules_are_followed(rules: str, path: str, allowed: bool) -> None:
    assert verdict(rules.encode(), SITE + path).allows == allowed


@pytest.mark.parametrize(
    ("rules", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 2.5", 2.5),
        ("User-agent: *\nCrawl-delay: 3600", 60),
        ("User-agent: other\nCrawl-delay: 5", None),
        ("User-agent: *\nCrawl-delay: 5\n\nUser-agent: catchment\nCrawl-delay: 1", 1),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: soon", None),
    ],
)
def test_delay_is_bounded(rules: str, delay: float | None) -> None:
    assert verdict(rules.encode(), SITE).delay == delay


def test_only_the_beginning_of_a_long_file_counts() -> None:
    late = b"User-agent: *\nDisallow: /early\n" + b"# weir\n" * 100_000 + b"Disallow: /late\n"

    assert (verdict(late, f"{SITE}/early").allows, verdict(late, f"{SITE}/late").allows) == (False, True)


@pytest.mark.parametrize(
    "rules",
    [
        b"".join(b"User-agent: a%d\n" % n for n in range(14_000))
        + b"".join(b"Disallow: /a%d\n" % n for n in range(14_000)),
        b"User-agent: *\nDisallow: /" + b"*a" * 250_000 + b"b",
        b"User-agent: *\n" + b"Disallow: /*a*a*a*a*a*b\n" * 20_000,
        b"User-agent: *\nDisallow: " + b"/$" * 250_000,
    ],
    ids=["thousands of agents", "one long pattern", "many patterns", "dollars"],
)
def test_hostile_rules_end_soon(rules: bytes) -> None:
    assert verdict(rules, f"{SITE}/{'a' * 1_900}").allows
