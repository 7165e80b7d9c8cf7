// Command leftout prints which parts the last run of the compatibility tests left out, and why.
//
// go test hides what a passing package prints, so this is run after it. It exits with 1 if something was left out and
// CI is true.
//
// "leftout try" tries, from the module's folder, that a part whose programs are missing is left out and named, and
// nothing fails: with Go and git alone, and with each single program missing that some part asks for. Only the decision
// is tried, in test programs that start neither server nor client; so it takes little.
package main

import (
	"context"
	"fmt"
	"os"

	"zkd/compat-tests/target"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "try" {
		if err := try(context.Background(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	lines, err := target.LeftOut()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, line := range lines {
		fmt.Println("left out:", line)
	}
	if len(lines) == 0 {
		fmt.Println("left out: nothing")
	} else if os.Getenv("CI") == "true" {
		os.Exit(1)
	}
}
