"""The meaning of a name: one resolver for documents and items."""

from __future__ import annotations

import pickle

import pytest

from catchment.errors import Ambiguous, NotFound
from catchment.model import Priority
from catchment.views import resolver
from connectors.web.settings import WebSettings
from tests.ledger.world import World, content, delivered, note

pytestmark = pytest.mark.databases


def put(world: World, *locators: str, **more: object) -> list[int]:
    """Add documents and return their numbers."""
    for locator in locators:
        world.see(note(locator, content(locator)))
        batch = world.claim()
        world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, f"of {locator}", **more)])  # type: ignore[arg-type]
    found = [world.ledger.intake.find(locator)[0].document for locator in locators]
    return [number for number in found if number is not None]


def choose(world: World, name: str) -> int:
    return resolver.document(world.ledger, name, dict).number


def test_address_is_found_in_other_spellings(world: World) -> None:
    (page,) = put(world, "https://river.example/dam?page=2")
    settings = {"notes": WebSettings(addresses=("https://river.example/",))}

    def choose(name: str) -> int:
        return resolver.document(world.ledger, name, lambda: settings).number

    for name in ("page=2", "page=2#weir", "utm_source=feed&page=2", "page=2&utm_medium=mail#weir"):
        assert choose(f"https://river.example/dam?{name}") == choose(f"HTTPS://River.Example:443/dam?{name}") == page
    for name in ("https://river.example/dam?page=3#weir", "https://", "https://[::"):
        with pytest.raises(NotFound):
            choose(name)


def test_number_is_a_document_with_and_without_a_sign(world: World) -> None:
    (number,) = put(world, "a.md")
    assert choose(world, f"#{number}") == choose(world, str(number)) == number
    with pytest.raises(NotFound, match="'#99': no such document"):
        choose(world, "#99")


def test_document_number_wins_over_a_note_named_like_it_and_says_so(world: World) -> None:
    first, other, year = put(world, "1.md", "x.md", "2025.md")
    put(world, f"deep/{other}.md")
    found = resolver.document(world.ledger, str(other), dict)
    assert (found.number, [row.locator for row in found.others]) == (other, [f"deep/{other}.md"])
    assert resolver.document(world.ledger, f"#{other}", dict).others == []
    assert choose(world, "2025") == year
    assert choose(world, "1.md") == first


def test_number_of_a_job_lists_its_item_beside_the_document(world: World) -> None:
    put(world, *(f"{n}.md" for n in range(3)))
    world.see(note("broken.md"))
    [job] = world.claim().jobs
    put(world, *(f"more {n}.md" for n in range(3)))
    listed = resolver.find(world.ledger, f"#{job.id}", dict).listed
    assert [(row.locator, row.document == job.id) for row in listed][-1] == ("broken.md", False)
    assert resolver.document(world.ledger, f"#{job.id}", dict).number == job.id
    assert resolver.find(world.ledger, f"#{job.id}", dict, "papers").listed == []


def test_equal_matches_are_listed_and_none_is_chosen(world: World) -> None:
    numbers = put(world, "p/Plan.md", "q/Plan.md", "q/deep/plan.md")
    with pytest.raises(Ambiguous) as raised:
        choose(world, "Plan.md")
    assert str(raised.value) == "'Plan.md': 2 documents have this name; give the number of one"
    assert raised.value.choices == (f"#{numbers[1]} notes: q/Plan.md", f"#{numbers[0]} notes: p/Plan.md")
    assert raised.value.exit_code == 2
    assert pickle.loads(pickle.dumps(raised.value)).choices == raised.value.choices
    assert choose(world, "deep/Plan.md") == numbers[2]
    many = [f"{n}/Plan.md" for n in range(12)]
    put(world, *many)
    with pytest.raises(Ambiguous) as raised:
        choose(world, "Plan.md")
    assert (len(raised.value.choices), raised.value.choices[-1]) == (11, "and 4 more")


def test_equal_matches_of_two_sources_are_listed(world: World) -> None:
    put(world, "Plan.md")
    world.source = world.ledger.sources.put("papers", "local_files", Priority.NORMAL)
    world.sync = world.begin()
    put(world, "Plan.md")
    with pytest.raises(Ambiguous) as raised:
        choose(world, "Plan.md")
    assert {choice.partition(" ")[2] for choice in raised.value.choices} == {"notes: Plan.md", "papers: Plan.md"}
    assert [row.source for row in resolver.find(world.ledger, "Plan.md", dict, "papers").items] == ["papers"]


def test_whole_path_wins_and_weaker_matches_are_told(world: World) -> None:
    whole, part = put(world, "Plan.md", "sub/Plan.md")
    found = resolver.document(world.ledger, "Plan.md", dict)
    assert (found.number, [row.document for row in found.others]) == (whole, [part])
    assert [row.document for row in resolver.find(world.ledger, "Plan.md", dict).listed] == [whole]
    assert [row.document for row in resolver.find(world.ledger, "Plan", dict).listed] == [whole, part]


def test_message_wins_over_the_files_attached_to_it(world: World) -> None:
    message, part = put(world, "mail/letter.eml", "mail/letter.eml;PART=2")
    assert choose(world, "letter") == message
    assert choose(world, "letter.eml;PART=2") == part


def test_title_counts_only_if_no_path_has_the_name(world: World) -> None:
    assert put(world, "a.md", title="The plan") == [choose(world, "the PLAN")]
    (named,) = put(world, "The plan.md", title="Another")
    assert choose(world, "The plan") == named
    put(world, "b.md", "c.md", title="Twice")
    with pytest.raises(Ambiguous):
        choose(world, "Twice")


def test_unknown_name_is_answered_with_similar_ones(world: World) -> None:
    put(world, "Projects/Gauge visit.md", "Bees.md")
    with pytest.raises(NotFound, match=r"'Gauge visti': no such document; did you mean Projects/Gauge visit\.md\?"):
        choose(world, "Gauge visti")
    with pytest.raises(NotFound, match="`catchment search` finds documents"):
        choose(world, "zebra")


def test_item_without_a_document_is_not_found_with_the_remedy(world: World) -> None:
    world.see(note("new.md"))
    with pytest.raises(NotFound, match=r"'new\.md': not in the library; the reason: catchment why new\.md"):
        choose(world, "new.md")
