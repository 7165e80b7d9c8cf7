package limits

import (
	"sync"
	"time"
)

// What connections that end without a session may cost others: as many at once go by unnoticed, and so many a second.
// Beyond that the next ones are taken later. Clients that come back by the thousand, to stay, are none of them.
const (
	churnBurst  = 500
	churnEach   = time.Millisecond
	churnAtOnce = 20 * time.Millisecond // the longest pause
)

// Churn is how many connections have ended lately without a session. Who opens them one after the other has the server
// do nothing else: so it takes them no faster than is good for those that stay. Any goroutine may use it.
type Churn struct {
	mu    sync.Mutex // a leaf
	until time.Duration
}

// Ended counts one at the time now.
func (c *Churn) Ended(now time.Duration) {
	c.mu.Lock()
	c.until = max(c.until, now) + churnEach
	c.mu.Unlock()
}

// Pause is how long nobody is to be taken at the time now; 0: no time.
func (c *Churn) Pause(now time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(max(c.until-now-churnBurst*churnEach, 0), churnAtOnce)
}
