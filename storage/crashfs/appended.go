package crashfs

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// appended is what MemFS holds of a file that is written at its end. Its Sync copies the whole file each time, which is
// most of what a log costs that is synced with each entry; here what was appended since is copied. That needs what
// MemFS keeps to itself.
type appended struct {
	mu           *sync.Mutex
	data, synced *[]byte // guarded by mu
}

// appendedOf returns that of a file of MemFS; nil if MemFS does not hold files as it did.
func appendedOf(file vfs.File) *appended {
	a := &appended{}
	node := field(reflect.ValueOf(file), "n")
	mu := field(node, "mu")
	for name, to := range map[string]any{"Mutex": &a.mu, "data": &a.data, "syncedData": &a.synced} { // order: a set
		of, into := field(mu, name), reflect.ValueOf(to).Elem()
		if !of.IsValid() || !of.CanAddr() || of.Type() != into.Type().Elem() {
			return nil
		}
		into.Set(reflect.NewAt(of.Type(), unsafe.Pointer(of.UnsafeAddr()))) //nolint:gosec // TestSyncOfWhatWasAppended
	}
	return a
}

// field is a field of a structure, or of what a pointer points to; not valid if there is none.
func field(of reflect.Value, name string) reflect.Value {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return of.FieldByName(name)
}

// sync syncs what was appended. false: the file is shorter than it was.
func (a *appended) sync() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := len(*a.synced)
	if from > len(*a.data) {
		return false
	}
	*a.synced = append(*a.synced, (*a.data)[from:]...)
	return true
}
