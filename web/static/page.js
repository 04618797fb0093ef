// Keys, results while typing, live parts. Every page works without this file.
const $ = (selector, from = document) => from.querySelector(selector);
const all = selector => [...document.querySelectorAll(selector)];
const field = $("#q") || $("#find");
const title = document.title.replace(/^\(\d+\) /, "");

// The one aria-live line: at most one message in 5 s.
let said = 0, next;
function say(text) {
  clearTimeout(next);
  next = setTimeout(() => { said = Date.now(); $("#say").textContent = text; }, Math.max(400, said + 5000 - Date.now()));
}

// Keys. The focused link is the selection, so Enter opens it without a handler. WCAG 2.1.4: single keys can be switched off.
const keysOn = () => localStorage.keys !== "off";
const go = { l: "library", t: "trouble", s: "sources", y: "syncs", h: "health" };
let chord = -Infinity;   // when g was pressed
function move(step) {
  const rows = all("[data-row]").filter(row => row.offsetParent), now = rows.indexOf(document.activeElement?.closest("[data-row]"));
  const row = rows[now < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, now + step))];
  (row?.matches("a") ? row : row && ($("a", row) || row))?.focus();
}
function press(button) {
  button?.focus();   // first: a closed dialog returns the focus there
  button?.click();
}
addEventListener("keydown", event => {
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && typing) return event.target.blur();
  if (event.key === "ArrowDown" && event.target === field) { event.preventDefault(); return move(1); }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !keysOn() || $("[popover]:popover-open")) return;
  if (event.timeStamp - chord < 1000 && go[event.key]) { chord = -Infinity; return $(`[data-go=${go[event.key]}]`)?.click(); }
  chord = event.key === "g" ? event.timeStamp : -Infinity;
  const button = $(`[data-key="${CSS.escape(event.key)}"]`);
  const act = { "/": () => { field?.focus(); field?.select(); }, j: () => move(1), k: () => move(-1), "?": () => $("#keys").showPopover() }[event.key]
    || (button && (() => press(button)));
  if (act) { event.preventDefault(); act(); }
});
const toggle = $("#keys-on");
toggle.checked = keysOn();
toggle.onchange = () => { localStorage.keys = toggle.checked ? "on" : "off"; };

// Results while typing, made by the page's own handler. The last request wins; the filters, which take longer, follow.
let typed, asked;
async function search(q) {
  asked?.abort();
  asked = new AbortController();
  const load = async part => {
    const response = await fetch(`/search?${new URLSearchParams({ q, part })}`, { signal: asked.signal });
    if (response.ok) $(`#${part}`).outerHTML = await response.text();
    return response.ok;
  };
  try {
    if (!await load("found")) return;
    clearTimeout(typed);
    typed = setTimeout(() => load("facets").catch(() => {}), 250);
    const address = q ? `/search?${new URLSearchParams({ q })}` : "/", isSearch = history.state || location.pathname !== "/";
    if (isSearch) history.replaceState(history.state, "", address);
    else if (q) history.pushState("search", "", address);   // Back returns to the Library
    say($("#found .read-as")?.textContent.trim().replace(/\s+/g, " ") || "");
  } catch (error) {
    if (error.name !== "AbortError") lost();
  }
}
$("#q")?.addEventListener("input", event => {
  clearTimeout(typed);
  typed = setTimeout(() => search(event.target.value.trim()), 80);
});
$("#q")?.form.addEventListener("submit", event => {   // its results are on this page
  event.preventDefault();
  clearTimeout(typed);
  search($("#q").value.trim());
});
addEventListener("popstate", () => {
  const q = new URLSearchParams(location.search).get("q") || "";
  if ($("#q") && q !== $("#q").value.trim()) search($("#q").value = q);
});

// Live parts: pairs of an ID and HTML that the page's own template made. A hidden tab holds no connection.
const stale = /<time.*?<\/time>/gs;
function replace([id, html]) {
  const old = document.getElementById(id), inside = old?.contains(document.activeElement) && document.activeElement;
  if (!old || inside && inside.matches("input, textarea, select") || $(":popover-open", old)) return;   // never a form in use
  const fresh = document.createElement("template");
  fresh.innerHTML = old.matches("tbody") ? `<table>${html}</table>` : html;
  const part = fresh.content.getElementById(id);
  if (!part || part.isEqualNode(old)) return;
  const path = inside && (inside.id ? `#${CSS.escape(inside.id)}` : inside.href && `[href="${CSS.escape(inside.getAttribute("href"))}"]`);
  const isNew = old.innerHTML.replace(stale, "") !== part.innerHTML.replace(stale, "");
  old.replaceWith(part);
  if (path) $(path, part)?.focus({ preventScroll: true });
  if (isNew && !["strip", "tabs", "timeline", "changes", "text", "found"].includes(id)) part.classList.add("changed");
}
function count() {   // the title and the icon show what the tabs show
  const before = document.title, number = parseInt($(".badge")?.textContent) || 0;
  document.title = number ? `(${number}) ${title}` : title;
  $("link[rel=icon]").href = $("#tabs").dataset.icon;
  if (document.title !== before) say(number === 1 ? "1 open problem" : `${number} open problems`);
}

let stream, warning, minute;
function lost() {
  warning ??= setTimeout(() => { $("#lost").hidden = false; $("#live").textContent = "Reconnecting"; }, 5000);
}
function found() {
  clearTimeout(warning);
  warning = undefined;
  $("#lost").hidden = true;
  $("#live").textContent = "Live";
}
function connect() {
  stream?.close();
  stream = undefined;
  clearInterval(minute);
  if (document.hidden) {
    minute = setInterval(async () => {
      const response = await fetch(document.body.dataset.live.replace("/events", "/count")).catch(() => undefined);
      if (response?.ok) { replace(["tabs", await response.text()]); count(); }
    }, 60_000);
    return;
  }
  stream = new EventSource(document.body.dataset.live);
  stream.onopen = found;
  stream.onerror = () => {
    lost();
    if (stream?.readyState === EventSource.CLOSED) setTimeout(connect, 5000);   // after an error status it does not try again
  };
  stream.addEventListener("parts", event => {
    JSON.parse(event.data).forEach(replace);
    $("#live").textContent = "Live";   // the strip is one of the parts
    count();
  });
}
document.addEventListener("visibilitychange", connect);
addEventListener("pagehide", () => stream?.close());
connect();
