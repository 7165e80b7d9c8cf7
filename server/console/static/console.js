"use strict";
// Shows parts of a page anew: an element with data-refresh-url is fetched from there every data-every milliseconds, while
// the page is seen. 204: nothing has changed. 409: it has, and is too long to come by itself.
(function () {
  const region = document.querySelector("[data-refresh-url]");
  const beat = document.getElementById("beat");
  const freeze = document.querySelector("[data-freeze]");
  let failed = 0;

  function say(text) {
    if (beat && beat.textContent !== text) beat.textContent = text;
  }

  function address() {
    const url = new URL(region.dataset.refreshUrl, location.href);
    const seen = region.querySelector("[data-seen]");
    if (seen) url.searchParams.set("seen", seen.dataset.seen);
    return url;
  }

  // Whoever has frozen the page sees it as it was.
  function frozen() {
    return freeze !== null && freeze.getAttribute("aria-pressed") === "true";
  }

  // Whoever is filling something in, has opened something or selects text keeps what he has.
  function busy() {
    const active = document.activeElement;
    const selection = document.getSelection();
    return (active && region.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName)) ||
      (selection && !selection.isCollapsed && region.contains(selection.anchorNode)) ||
      region.querySelector("details[open]") !== null;
  }

  function replace(html) {
    const active = document.activeElement;
    const inside = active && region.contains(active) && active !== document.body;
    const href = inside ? active.getAttribute("href") : null;
    const label = inside ? active.getAttribute("aria-labelledby") : null;
    const tops = Array.from(region.querySelectorAll(".scroll, pre"), (e) => [e.scrollTop, e.scrollLeft]);
    const page = new DOMParser().parseFromString(html, "text/html");
    region.replaceChildren(...page.body.childNodes);
    region.querySelectorAll(".scroll, pre").forEach((e, i) => {
      if (tops[i]) [e.scrollTop, e.scrollLeft] = tops[i];
    });
    for (const e of region.querySelectorAll("a[href], [tabindex]")) {
      if ((href && e.getAttribute("href") === href) || (label && e.getAttribute("aria-labelledby") === label)) {
        e.focus({ preventScroll: true });
        break;
      }
    }
  }

  async function refresh() {
    const answer = await fetch(address(), { credentials: "same-origin", redirect: "error" });
    if (answer.status === 204) return say("");
    if (answer.status === 409) return say("This has changed. Load the page again to see it.");
    if (answer.status === 401) return say("You are not signed in any more. Load the page again.");
    if (!answer.ok) throw new Error(answer.statusText);
    const html = await answer.text();
    if (frozen()) return;
    if (busy()) return say("This has changed meanwhile.");
    replace(html);
    say("");
  }

  async function loop() {
    if (!document.hidden && !frozen()) {
      try {
        await refresh();
        failed = 0;
      } catch (e) {
        failed++;
        say("The server does not answer; what is shown may be old.");
      }
      document.body.classList.toggle("stale", failed > 1);
    }
    if (region.querySelector("[data-end]")) return;
    setTimeout(loop, Number(region.dataset.every) * Math.min(1 + failed, 5));
  }

  if (freeze) {
    freeze.hidden = false;
    freeze.addEventListener("click", () => {
      freeze.setAttribute("aria-pressed", String(!frozen()));
      say(frozen() ? "Frozen." : "");
    });
  }

  if (region) setTimeout(loop, Number(region.dataset.every));

  // What cannot be taken back is asked for once more.
  document.addEventListener("submit", (e) => {
    const question = e.target.dataset.ask;
    if (question && !confirm(question)) e.preventDefault();
  });
})();
