package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// within is how long goroutines may take to end after the last test.
const within = time.Minute

// VerifyTestMain is goleak.VerifyTestMain, but it waits for up to a minute. It does not return.
func VerifyTestMain(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code != 0 {
		os.Exit(code) // a test that failed may leave anything
	}
	deadline := time.Now().Add(within)
	err := goleak.Find(options...)
	for err != nil && time.Now().Before(deadline) { // Find waits between its looks
		err = goleak.Find(options...)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "goroutines are left %v after the tests: %v\n", within, err)
		code = 1
	}
	os.Exit(code)
}
