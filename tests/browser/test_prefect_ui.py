"""The Prefect UI for users: sources, their schedules and settings, and the results of syncs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from deployments.server.client import api
from tests.acceptance.person import Person
from tests.browser.conftest import picture
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def url(person: Person) -> str:
    return person.running.url


def ask(person: Person, what: str, **query: Any) -> list[dict[str, Any]]:
    """Query the server for objects of this type, to find their pages."""
    with api(person.running) as client:
        found: list[dict[str, Any]] = client.post(f"/{what}/filter", json=query).raise_for_status().json()
        return found


def deployment(person: Person, name: str) -> str:
    (found,) = ask(person, "deployments", deployments={"name": {"any_": [name]}})
    return f"{person.running.url}/deployments/deployment/{found['id']}"


def first_run(person: Person, name: str) -> str:
    """Return the URL of the first run with this prefix of its name."""
    started = {"name": {"like_": name}, "start_time": {"is_null_": False}}
    found = ask(person, "flow_runs", flow_runs=started, sort="START_TIME_ASC")
    return f"{person.running.url}/runs/flow-run/{found[0]['id']}"


def shows(page: Page, *texts: str) -> None:
    """Wait until each of these texts is visible on the page."""
    for text in texts:
        expect(page.get_by_text(text).filter(visible=True).first).to_be_visible(timeout=60_000)


@pytest.mark.parametrize("ui", ["", "/v2"])
def test_browser_without_a_login_is_told_how_to_sign_in(browser: Browser, url: str, ui: str) -> None:
    stranger = browser.new_context().new_page()
    stranger.goto(f"{url}{ui}/deployments")
    expect(stranger).to_have_url(f"{url}/signin")
    shows(stranger, "catchment web", "ui-login")
    picture(stranger, f"a_stranger{ui.replace('/', '_')}")
    stranger.get_by_role("link").click()
    stranger.locator("input[type=password]").fill("catchment:guessed")
    stranger.keyboard.press("Enter")
    shows(stranger, "Authentication failed")
    expect(stranger).to_have_url(re.compile("/login"))
    stranger.context.close()


# The second interface does not show the events of the current minute.
@pytest.mark.parametrize(
    ("path", "text"), [("/events", "prefect.flow-run.Completed"), ("/v2/deployments", "sync-obsidian")]
)
def test_one_link_signs_in_to_both_interfaces_of_prefect(page: Page, url: str, path: str, text: str) -> None:
    page.goto(f"{url}{path}")
    shows(page, text)
    expect(page).to_have_url(re.compile(path))


def test_the_sources_are_deployments_with_their_schedules(page: Page, url: str) -> None:
    page.goto(f"{url}/deployments")
    rows = {name: page.get_by_role("row").filter(has_text=flow).filter(has_text=name) for name, flow in
            {"vault": "sync-obsidian", "lost": "sync-local_files", "many": "sync-obsidian"}.items()}  # fmt: skip
    expect(rows["vault"].first).to_contain_text("Every 15 minutes")
    expect(rows["lost"].first).to_contain_text("07:00 AM")
    expect(rows["many"].first).to_contain_text("Ready")


def test_list_of_deployments_shows_the_state_of_a_source(page: Page, url: str) -> None:
    page.goto(f"{url}/v2/deployments")
    rows = {name: page.get_by_role("row").filter(has_text=f"{name}sync-") for name in ("vault", "lost")}
    expect(rows["lost"]).to_contain_text("held")
    expect(rows["vault"]).not_to_contain_text("held")


def test_runs_can_be_filtered_by_our_states(page: Page, url: str) -> None:
    page.goto(f"{url}/v2/runs")
    page.get_by_text("All run states").filter(visible=True).first.click()
    page.get_by_placeholder("Search state names").fill("Quaran")
    page.get_by_role("menuitem").filter(has_text="Quarantined").click()
    page.keyboard.press("Escape")
    shows(page, "lost: held (source.unreachable)", "1 Flow run")
    expect(page.get_by_text("lost: failed (source.unreachable)")).to_have_count(0)


def test_event_feed_can_be_filtered_by_our_events(page: Page, url: str) -> None:
    ours = page.get_by_text("catchment.*", exact=True).filter(visible=True)

    def are_offered() -> bool:
        page.goto(f"{url}/v2/events")
        page.get_by_text("All event types").first.click()
        page.wait_for_timeout(3_000)
        return ours.count() > 0

    # Events of the current minute are not offered.
    until(are_offered, seconds=120)
    ours.last.click()
    page.keyboard.press("Escape")
    shows(page, "catchment.source.held")
    expect(page.get_by_text("prefect.flow-run.Completed")).to_have_count(0)


def test_second_interface_shows_a_run_and_an_artifact(page: Page, person: Person) -> None:
    page.goto(first_run(person, "vault:").replace("/runs/", "/v2/runs/"))
    shows(page, "1 quarantined", "Completed", "new or changed items", "What helps")
    (health,) = ask(person, "artifacts/latest", artifacts={"key": {"any_": ["health"]}})
    page.goto(f"{person.running.url}/v2/artifacts/artifact/{health['latest_id']}")
    expect(page.get_by_role("row").nth(1)).to_contain_text("fail")


def test_source_run_form_has_typed_settings(page: Page, person: Person) -> None:
    page.goto(f"{deployment(person, 'vault')}/run")
    shows(page, "Another place to read is refused", "Folder", "Full path of the folder")
    shows(page, "Priority", "Exclude", "Ignore file", "None: those of this kind of source", "Own retries")
    form = page.locator("body").inner_text().partition("Parameters")[2]
    order = [form.index(title) for title in ("deep", "plan", "changed_only", "name", "settings", "Priority")]
    assert order == sorted(order)
    filled = [field.input_value() for field in page.locator("input, textarea").all()]
    assert any(value.endswith("/examples/vault") for value in filled)


def test_source_shows_its_next_run(page: Page, person: Person) -> None:
    page.goto(deployment(person, "vault"))
    shows(page, "Next Run", "auto-scheduled", "Schedules", "flows.obsidian.sync_obsidian")


def test_sync_run_is_named_after_its_result_and_shows_its_steps(page: Page, person: Person) -> None:
    page.goto(first_run(person, "vault:"))
    shows(page, "added or updated", "1 quarantined", "Completed", "new or changed items")
    page.get_by_text("Task Runs", exact=True).first.click()
    shows(page, "parse_error", "Quarantined")
    page.get_by_text("Subflow Runs", exact=True).first.click()
    shows(page, "extract slice 1")
    page.get_by_text("normalize slice 1").filter(visible=True).first.click()
    expect(page.get_by_text("Task Runs", exact=True).first).to_be_visible()
    page.get_by_text("Task Runs", exact=True).first.click()
    shows(page, "read and parse batch 1")


def test_sync_creates_a_table_of_its_counts(page: Page, person: Person) -> None:
    page.goto(first_run(person, "vault:"))
    page.get_by_text("Artifacts", exact=True).first.click()
    shows(page, "vault-summary")
    page.get_by_text("vault-summary").filter(visible=True).first.click()
    expect(page).to_have_url(re.compile("/artifacts/"))
    shows(page, "succeeded", "quarantined")


def test_a_long_sync_shows_its_progress(page: Page, person: Person) -> None:
    page.goto(first_run(person, "many:"))
    page.get_by_text("Artifacts", exact=True).first.click()
    shows(page, "many-progress", "many-summary")
    page.get_by_text("many-progress").filter(visible=True).first.click()
    expect(page).to_have_url(re.compile("/artifacts/"))
    shows(page, "100%")


def test_an_item_in_quarantine_has_a_task_run_with_its_log(page: Page, person: Person) -> None:
    (task,) = ask(person, "task_runs", task_runs={"state": {"name": {"any_": ["Quarantined"]}}})
    page.goto(f"{person.running.url}/runs/task-run/{task['id']}")
    shows(page, "Quarantined", "attempt 1: parse_error", "What helps: ")


def test_quarantine_of_a_source_links_to_the_page_of_each_item(page: Page, person: Person) -> None:
    (shown,) = ask(person, "artifacts/latest", artifacts={"key": {"any_": ["vault-quarantine"]}})
    (entry,) = person("quarantine", "list", "--json").ok().json
    page.goto(f"{person.running.url}/artifacts/artifact/{shown['latest_id']}")
    link = page.get_by_role("link", name=str(entry["job"]), exact=True)
    expect(link).to_have_attribute("href", re.compile(f"/jobs/{entry['job']}$"))


def test_repeatedly_failing_source_is_shown_as_paused(page: Page, person: Person) -> None:
    page.goto(first_run(person, "lost: held"))
    shows(
        page,
        "lost: held (source.unreachable)",
        "Quarantined",
        "A source cannot be reached or read. No document is deleted meanwhile.",
    )
    shows(page, "Check the network, mount the disk", "Held until: `catchment sources resume lost`")


def test_url_from_a_command_opens_the_run(page: Page, person: Person) -> None:
    (entry,) = person("quarantine", "list", "--json").ok().json
    shown = person("quarantine", "show", str(entry["job"])).ok().out
    (address,) = re.findall(r"http://\S+", shown)
    page.goto(address)
    shows(page, "1 quarantined", "attempt 1: parse_error")


@pytest.mark.parametrize("ui", ["", "/v2"])
def test_pages_contact_only_the_server(page: Page, url: str, asked: set[str], ui: str) -> None:
    page.goto(f"{url}{ui}/dashboard")
    shows(page, "Flow Runs")
    page.wait_for_load_state("networkidle")
    assert {host for host in asked if host} == {url.removeprefix("http://")}
