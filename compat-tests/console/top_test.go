package console_test

import (
	"testing"

	"zkd/compat-tests/target"
)

// TestTop: who does what is shown, sorted, filtered, frozen, as it moves; names of strangers are names.
func TestTop(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "/busy", []byte("x"))
	s.create(t, `/<script>alert(1)<`, []byte("y"))
	stop, done := make(chan struct{}), make(chan struct{})
	c := connect(t, s.Addr)
	go func() {
		defer close(done)
		for {
			for _, path := range []string{"/busy", "/busy", "/busy", `/<script>alert(1)<`} {
				if _, _, err := c.Get(path); err != nil {
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	b := open(t, s.base)
	b.visit("top?seconds=2")
	b.see("#live table", "getData")
	b.see("#live .sum", "requests/s")
	b.visit("top?seconds=2&view=znodes")
	b.see("#live tbody tr:first-child th", "/busy")
	b.see("#live table", `/<script>alert(1)<`)
	b.shot("top", wide, dark, narrow)
	// By the name, as a person sorts.
	b.submit("#live thead th:first-child a")
	b.see("#live th[aria-sort=ascending]", "ZNODE")
	b.see("#live tbody tr:first-child th", "/<script>")
	b.fill("#filter", "busy")
	b.submit("#filter + button")
	b.see("#live table", "/busy")
	var rows int
	b.value(`document.querySelectorAll("#live tbody tr").length`, &rows)
	if rows != 1 {
		t.Errorf("%d rows have busy in their names", rows)
	}
	b.click("[data-freeze]")
	b.see("#beat", "Frozen")
	frozen := b.text("#live .sum")
	// A page that goes on shows another time after a second; two others have been shown meanwhile.
	other := open(t, s.base)
	other.visit("top?seconds=2&view=slow")
	other.see("#live table", "getData")
	other.shot("slow", wide, narrow)
	moving := other.text("#live .sum")
	other.waitFor(`document.querySelector("#live .sum").innerText !== ` + quoted(moving))
	if got := b.text("#live .sum"); got != frozen {
		t.Errorf("frozen it says %q and then %q", frozen, got)
	}
	b.click("[data-freeze]")
	b.waitFor(`document.querySelector("#live .sum").innerText !== ` + quoted(frozen))
}

// TestTopElsewhere: servers whose admin servers do not tell are asked by their four-letter words, as Apache's are.
func TestTopElsewhere(t *testing.T) {
	target.Require(t, target.Chromium)
	s := target.Start(t, target.Options{Config: map[string]string{"zkd.diskReserve": "0"}})
	c := connect(t, s.Addr)
	b := open(t, zkdConsole(t, "--connect", "one="+s.Addr))
	b.visit("one/top?seconds=2&view=sessions")
	b.see("#live", "requests and latencies of its clients alone")
	for range 50 {
		if _, _, err := c.Get("/"); err != nil {
			t.Fatal(err)
		}
	}
	b.see("#live tbody", "127.0.0.1")
}
