package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"zkd/compat-tests/target"
)

// within bounds a wait for something to show. A guess, for a loaded machine.
const within = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(target.Main(m, "console")) }

// browser is one process with a profile and a page of its own.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string // of the console that it looks at

	mu       sync.Mutex
	problems []string
	accept   bool     // questions are answered with yes
	expected []string // parts of problems that the test has called for
}

// open starts a browser that looks at a console.
func open(t *testing.T, base string) *browser {
	t.Helper()
	target.Require(t, target.Chromium)
	target.Uses(t, "chromium")
	options := append([]chromedp.ExecAllocatorOption{chromedp.ExecPath("chromium"),
		chromedp.NoSandbox, // root has none
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(int(wide.width), int(wide.height)),
	}, chromedp.DefaultExecAllocatorOptions[:]...)
	ctx, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(func() {
		endBrowser()
		cancel()
		endAllocator()
		chromedp.FromContext(ctx).Allocator.Wait() // it removes the directory of the browser
	})
	b := &browser{t: t, ctx: ctx, base: base}
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as the context of this
		t.Fatalf("start chromium: %v", err)
	}
	chromedp.ListenTarget(ctx, b.listen)
	b.run(network.Enable(), cdplog.Enable(), runtime.Enable(), page.Enable())
	t.Cleanup(b.check)
	return b
}

// listen notes what no page should do.
func (b *browser) listen(event any) {
	host := "" // that may be asked
	if u, err := url.Parse(b.base); err == nil {
		host = u.Host
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problem("exception: " + e.ExceptionDetails.Error())
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError || e.Entry.Source == cdplog.SourceSecurity {
			b.problem("console: " + e.Entry.Text + " " + e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != host && u.Scheme != "data" && u.Scheme != "about" {
			b.problem("asked elsewhere: " + e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.mu.Lock()
		accept := b.accept
		if !accept {
			b.problems = append(b.problems, "dialog: "+e.Message)
		}
		b.mu.Unlock()
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(accept)) }()
	}
}

func (b *browser) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, text)
}

// expect has a problem with text in it be none.
func (b *browser) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

// agree has the questions of pages answered with yes from now on.
func (b *browser) agree() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accept = true
}

// check fails the test for what no page should have done.
func (b *browser) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		called := false
		for _, e := range b.expected {
			called = called || strings.Contains(p, e)
		}
		if !called {
			b.t.Errorf("the browser says: %s", p)
		}
	}
}

// run does things in the page, or fails the test.
func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%v; the page is\n%s", err, b.snapshot())
	}
}

// snapshot is the text of the page, for what a failed test says.
func (b *browser) snapshot() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	var text, at string
	_ = chromedp.Run(ctx, chromedp.Location(&at), chromedp.Text("body", &text, chromedp.ByQuery)) // it may have none
	return at + "\n" + text
}

// visit goes to a page, by its path below the ensemble's.
func (b *browser) visit(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base+path), chromedp.WaitVisible("main", chromedp.ByQuery))
}

// tree goes to the page of a znode.
func (b *browser) tree(path string) {
	b.t.Helper()
	b.visit("tree?path=" + url.QueryEscape(path))
}

// text is what an element shows.
func (b *browser) text(selector string) string {
	b.t.Helper()
	var text string
	b.run(chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// see waits until the element shows the text.
func (b *browser) see(selector, want string) {
	b.t.Helper()
	b.until(selector, fmt.Sprintf("%q", want),
		fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").includes(%q)`, selector, want))
}

// calm waits until the overview finds nothing wrong, but how full the disk of this machine is.
func (b *browser) calm() {
	b.t.Helper()
	b.until("#live", "that nothing is wrong", `((found) => found.length > 0 && found.every((f) =>
		f.innerText.includes("Every server answers") || /The disk of .* is nearly full/.test(f.innerText)))
		([...document.querySelectorAll("#live .notice")])`)
}

// waitFor waits until an expression of the page is true.
func (b *browser) waitFor(expression string) {
	b.t.Helper()
	b.until("the page", expression, expression)
}

// until waits until an expression of the page is true, or fails the test with what is never where.
func (b *browser) until(where, what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	poll := chromedp.Poll(expression, nil, chromedp.WithPollingInterval(50*time.Millisecond),
		chromedp.WithPollingTimeout(within))
	err := chromedp.Run(ctx, poll)
	for err != nil && ctx.Err() == nil && betweenPages(err) {
		err = chromedp.Run(ctx, poll)
	}
	if err != nil {
		b.t.Fatalf("%s never shows %s: %v; the page is\n%s", where, what, err, b.snapshot())
	}
}

// betweenPages reports whether an error says that the page that was asked has made room for the next one.
func betweenPages(err error) bool {
	text := err.Error()
	return strings.Contains(text, "Cannot find context") || strings.Contains(text, "context was destroyed") ||
		strings.Contains(text, "navigated or closed")
}

// value is what an expression of the page is.
func (b *browser) value(expression string, into any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, into))
}

// click clicks what the selector finds.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.run(chromedp.Click(selector, chromedp.ByQuery))
}

// fill fills in a field.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.run(chromedp.SetValue(selector, text, chromedp.ByQuery))
}

// submit clicks a button that leads to another page, and waits for that.
func (b *browser) submit(selector string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(selector, chromedp.ByQuery)); err != nil &&
		!errors.Is(err, context.Canceled) {
		b.t.Fatalf("%v; the page is\n%s", err, b.snapshot())
	}
}

// signIn signs in.
func (b *browser) signIn(scheme, user, password string) {
	b.t.Helper()
	b.visit("signin")
	b.click(`input[name=scheme][value=` + scheme + `]`)
	b.fill("#user", user)
	b.fill("#password", password)
	b.submit("main button.primary")
}

// look is how a page is looked at.
type look struct {
	name          string
	width, height int64
	dark          bool
}

var (
	wide   = look{"wide", 1360, 900, false}
	dark   = look{"dark", 1360, 900, true}
	narrow = look{"narrow", 390, 844, false}
)

// shot keeps a screenshot of the page, if somebody wants it.
func (b *browser) shot(name string, looks ...look) {
	b.t.Helper()
	dir := os.Getenv("ZKD_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	for _, l := range looks {
		scheme := "light"
		if l.dark {
			scheme = "dark"
		}
		var picture []byte
		b.run(chromedp.EmulateViewport(l.width, l.height),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}}),
			chromedp.CaptureScreenshot(&picture))
		if err := os.WriteFile(filepath.Join(dir, name+"-"+l.name+".png"), picture, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	b.run(chromedp.EmulateViewport(wide.width, wide.height), emulation.SetEmulatedMedia().WithFeatures(
		[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}))
}
