package snapshot

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"zkd/storage/crashfs"
)

// TestCrashOfTheReceiverAtAnyPoint stops the machine after each operation on the disk, with what was not synced lost or
// half there, and sends again: a directory that looks complete must be so, and the transfer must come to its end.
func TestCrashOfTheReceiverAtAnyPoint(t *testing.T) {
	files := map[string]string{"000001.sst": "one", "000002.sst": content()["000001.sst"], "MANIFEST": ""}
	for _, before := range []map[string]string{nil, {"000001.sst": "of another", "000007.sst": "snapshot"}} {
		operations := int32(0)
		for at := int32(0); at <= operations; at++ {
			mem := crashfs.New()
			if before != nil {
				stage(t, mem, before)
			}
			var crashed *crashfs.FS
			count := int32(0)
			clone := func() *crashfs.FS {
				return mem.CrashClone(vfs.CrashCloneCfg{
					UnsyncedDataPercent: int(at*37) % 101, RNG: rand.New(rand.NewPCG(uint64(at), 1)),
				})
			}
			r := newRig(t, files, func(_ *SenderOptions, o *ReceiverOptions) {
				o.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
						if count == at {
							crashed = clone()
						}
						count++
					}
					return nil
				}))
			})
			if err := r.send(); err != nil {
				t.Fatal(err)
			}
			r.streams.Wait()
			operations = count
			if crashed == nil {
				crashed = clone()
			}
			afterCrash(t, crashed, files, before)
		}
		if operations < 10 {
			t.Errorf("only %d operations seen", operations)
		}
	}
}

// stage leaves a complete snapshot, on disk.
func stage(t *testing.T, mem *crashfs.FS, files map[string]string) {
	t.Helper()
	r := newRig(t, files, func(_ *SenderOptions, o *ReceiverOptions) { o.FS = mem })
	if err := r.send(); err != nil {
		t.Fatal(err)
	}
	r.streams.Wait()
}

// afterCrash checks what a crash has left, and sends once more.
func afterCrash(t *testing.T, mem *crashfs.FS, files, before map[string]string) {
	t.Helper()
	complete, err := Complete(mem, "data/staging")
	if err != nil {
		t.Fatal(err)
	}
	if complete {
		got := readFiles(t, mem, "data/staging")
		if !sameFiles(got, files) && (before == nil || !sameFiles(got, before)) {
			t.Errorf("a directory that is not whole looks complete:\n%s", mem)
		}
	}
	r := newRig(t, files, func(_ *SenderOptions, o *ReceiverOptions) { o.FS = mem })
	if err := r.sender.SendSnapshot(context.Background(), 2, []byte("header"), "checkpoint"); err != nil {
		t.Fatal(err)
	}
	r.streams.Wait()
	r.wantHanded(files)
}
