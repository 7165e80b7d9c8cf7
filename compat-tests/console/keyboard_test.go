package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// nameless are the controls of a page that a screen reader has no name for.
const nameless = `[...document.querySelectorAll(
	"input:not([type=hidden]), select, textarea, button, a[href]")].filter(e => {
	const labelled = (e.getAttribute("aria-labelledby") ?? "").split(" ").map(
		id => document.getElementById(id)?.innerText);
	return ![e.getAttribute("aria-label"), e.title, e.innerText, ...labelled,
		...[...(e.labels ?? [])].map(l => l.innerText)].some(t => (t ?? "").trim() !== "");
}).map(e => e.outerHTML).join("\n")`

// TestNewPagesByKeyboard: every control of Top, Search and Restore has a name, Tab reaches each and leaves each, and
// shows where it is.
func TestNewPagesByKeyboard(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/app", []byte("x"))
	b := superuser(t, s)
	b.choose(backupOf(t, s.base))
	b.see("main", "whole and undamaged")
	var restore string
	b.value(`location.pathname.replace(/.*\//, "") + location.search`, &restore)
	for _, path := range []string{"top", "search?path=/app", restore, "members"} {
		b.visit(path)
		b.click("[data-freeze], h1, h2") // a page that moves makes its controls anew
		var wrong string
		var controls int
		if b.value(nameless, &wrong); wrong != "" {
			t.Errorf("%s: without a name: %s", path, wrong)
		}
		b.value(`document.activeElement.blur(), window.left = new Set([...document.querySelectorAll(
			"input:not([type=hidden]), select, textarea, button, a[href]")].filter(
			e => e.checkVisibility() && (e.type !== "radio" || e.checked))),
			window.most = window.left.size + 10, window.left.size`, &controls)
		if controls < 10 {
			t.Errorf("%s: only %d controls are found", path, controls)
		}
		b.visitFocus()
		for range 300 {
			var more bool
			b.run(chromedp.KeyEvent(kb.Tab))
			b.value(`(() => { const e = document.activeElement; window.left.delete(e);
				if (e !== document.body && e.id !== "main" && getComputedStyle(e).outlineStyle === "none")
					window.unseen = e.outerHTML;
				return window.left.size > 0 && window.most-- > 0; })()`, &more)
			if !more {
				break
			}
		}
		b.value(`[...window.left].map(e => e.outerHTML).join("\n") +
			(window.unseen ? "; no focus shown: " + window.unseen : "")`, &wrong)
		if wrong != "" {
			t.Errorf("%s: Tab does not reach %s", path, wrong)
		}
	}
	var planted string // the test sees what it is there for
	b.value(`document.querySelector("main").insertAdjacentHTML("beforeend", "<input id='planted'>"), 0`, nil)
	if b.value(nameless, &planted); planted != `<input id="planted">` {
		t.Errorf("without a name: %q", planted)
	}
}

// visitFocus has the next Tab begin at the first control.
func (b *browser) visitFocus() {
	b.t.Helper()
	b.value(`document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute("tabindex"), 0`, nil)
}
