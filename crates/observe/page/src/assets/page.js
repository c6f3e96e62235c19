// Keeps the page up to date: each message has what changed, rendered by the server.
"use strict";

// A secret that is shown once: gone when its page is left, also for the button that goes back.
(() => {
  const forget = () => document.querySelectorAll("[data-once]").forEach((one) => one.remove());
  addEventListener("pagehide", forget);
  addEventListener("pageshow", (shown) => { if (shown.persisted) forget(); });
  for (const button of document.querySelectorAll("[data-copy]")) {
    const text = document.getElementById(button.dataset.copy);
    const said = document.querySelector("[data-copied]");
    button.hidden = false;
    button.addEventListener("click", async () => {
      text.select();
      // Browsers allow it only on a page that came by TLS, or from this host.
      try { await navigator.clipboard.writeText(text.value); said.textContent = "Copied."; }
      catch { said.textContent = "It is selected: copy it by Ctrl+C."; }
    });
  }
})();

// Links are moved between roles by dragging, or by arrow keys on their handle: where one comes
// down, the page that says what that does is opened.
(() => {
  const places = [...document.querySelectorAll(".role")];
  const said = document.querySelector("[data-moving]");
  const placeOf = (link) => link.closest(".role");
  const marked = (place) => places.forEach((one) => one.classList.toggle("is-target", one === place));

  function ask(link, place) {
    if (!place || place === placeOf(link)) return;
    const query = new URLSearchParams({ role: place.dataset.role });
    if (place.dataset.tier) query.set("tier", place.dataset.tier);
    location.assign(`/links/${encodeURIComponent(link.dataset.link)}/change?${query}`);
  }

  let dragged = null;
  for (const link of document.querySelectorAll("[data-moves]")) {
    const handle = link.querySelector(".handle");
    let at = null;
    handle.hidden = false;
    link.draggable = true;
    link.addEventListener("dragstart", (event) => {
      dragged = link;
      event.dataTransfer.effectAllowed = "move";
      event.dataTransfer.setData("text/plain", link.dataset.link);
    });
    link.addEventListener("dragend", () => { dragged = null; marked(null); });
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (step) {
        event.preventDefault();
        const next = places.indexOf(at || placeOf(link)) + step;
        at = places[Math.min(Math.max(next, 0), places.length - 1)];
        said.textContent = `${link.dataset.link}: ${at.getAttribute("aria-label")}`;
      } else if (event.key === "Enter" && at) {
        event.preventDefault();
        ask(link, at);
      } else if (event.key === "Escape") at = null;
      else return;
      marked(at);
    });
    handle.addEventListener("blur", () => { at = null; marked(null); });
  }
  for (const place of places) {
    place.addEventListener("dragover", (event) => {
      if (!dragged) return;
      event.preventDefault();
      marked(place);
    });
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      if (dragged) ask(dragged, place);
    });
  }
})();

(() => {
  const source = document.querySelector("[data-live]");
  if (!source) return;
  const stale = document.getElementById("stale");
  const STALE_AFTER_MS = 5000;
  const RETRY_MS = 3000;
  let heard = Date.now();
  let events = null;

  function show(message) {
    heard = Date.now();
    stale.hidden = true;
    document.body.classList.remove("is-stale");
    const parts = JSON.parse(message.data);
    for (const [id, text] of Object.entries(parts)) {
      const element = document.getElementById(id);
      // What is in use, or the same, is left alone.
      if (!element || element.contains(document.activeElement)) continue;
      if (element.dataset.shown === text) continue;
      element.innerHTML = text;
      element.dataset.shown = text;
    }
  }

  function connect() {
    if (events) events.close();
    events = new EventSource(source.dataset.live);
    events.onmessage = show;
    // A browser tries again by itself, but for answers that are none.
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
    };
  }

  setInterval(() => {
    const silent = Date.now() - heard;
    if (silent < STALE_AFTER_MS) return;
    document.body.classList.add("is-stale");
    stale.hidden = false;
    const text = `No news for ${Math.round(silent / 1000)} s: this is how it was. Trying again …`;
    if (stale.textContent !== text) stale.textContent = text;
  }, 1000);

  // A page that nobody sees costs the router nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) events.close();
    else connect();
  });
  connect();
})();
