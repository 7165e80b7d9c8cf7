package apply

import (
	"fmt"
	"testing"

	"zkd/jute"
	"zkd/storage/schema"
)

// TestEndedCountsAreForgotten: while one count goes on, others come and go, and leave nothing behind.
func TestEndedCountsAreForgotten(t *testing.T) {
	all := CountsOf([]*schema.Count{schema.NewCount(1, "/first")})
	for i := range 1000 {
		target := fmt.Sprintf("/t%d", i)
		all.put(target, schema.NewCount(jute.Zxid(i+2), target))
		all.put(target, nil)
	}
	if all.Len() != 1 || all.oldest() != all.Of("/first") || len(all.queue) > 2+countingQueueSlack {
		t.Errorf("%d counts, %d queued, the oldest is %v", all.Len(), len(all.queue), all.oldest())
	}
	all.put("/first", nil)
	if c := all.oldest(); c != nil {
		t.Errorf("%v is left", c)
	}
}
