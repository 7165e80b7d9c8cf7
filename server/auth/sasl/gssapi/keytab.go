package gssapi

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/types"
)

// anyVersion asks for the newest key.
const anyVersion = 0

// keytabRereadAfter is the shortest time between two reads of a keytab for a key that it has not: tickets with odd key
// versions are easily made. A guess.
const keytabRereadAfter = 10 * time.Second

// Why a keytab does not do.
var (
	errKeytab = errors.New("keytab is malformed")
	errNoKey  = errors.New("keytab has not the key of the ticket: it is older than the principal's last change of " +
		"keys, or newer than the ticket")
)

// keys is a keytab.
type keys struct {
	mu    sync.Mutex
	table *keytab.Keytab // guarded by mu; what it points to never changes
	asked time.Time      // when it was last too old; guarded by mu
}

// read reads the keytab anew. An error leaves the old one.
func (k *keys) read(file func() ([]byte, error)) error {
	text, err := file()
	if err != nil {
		return fmt.Errorf("read the keytab: %w", err)
	}
	table, err := parseKeytab(text)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.table = table
	k.mu.Unlock()
	return nil
}

// parseKeytab reads a keytab.
func parseKeytab(text []byte) (table *keytab.Keytab, err error) {
	defer func() {
		if recover() != nil { // what was found may hold parts of keys
			table, err = nil, errKeytab
		}
	}()
	table = keytab.New()
	if table.Unmarshal(text) != nil {
		return nil, errKeytab
	}
	return table, nil
}

// find returns a key of a principal.
func (k *keys) find(name types.PrincipalName, realm string, version int, etype int32) (types.EncryptionKey, error) {
	k.mu.Lock()
	table := k.table
	k.mu.Unlock()
	key, _, err := table.GetEncryptionKey(name, realm, version, etype)
	if err != nil {
		return types.EncryptionKey{}, errNoKey
	}
	return key, nil
}

// stale tells whether it is time to look whether there is a newer keytab.
func (k *keys) stale(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.asked.IsZero() && now.Sub(k.asked) < keytabRereadAfter {
		return false
	}
	k.asked = now
	return true
}
