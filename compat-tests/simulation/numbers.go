package simulation

import "strings"

// idOfZero is the id of the server with the number 0 inside zkd, as numbers and as raft writes them (storage/serverid).
var idOfZero = []string{"9223372036854775808", "8000000000000000"}

// checkNumbers checks that nobody was told of the id that the server with the number 0 has inside zkd.
func checkNumbers(g *play) {
	if !g.plan.FromZero {
		return
	}
	for _, line := range g.w.Story.Since(0) {
		for _, id := range idOfZero {
			if strings.Contains(line, id) {
				g.violated("a line of the log has an id in place of a number: %s", line)
			}
		}
	}
}
