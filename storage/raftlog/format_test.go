package raftlog

import (
	"bytes"
	"testing"
)

func FuzzRaftLogEntryValue(f *testing.F) {
	for _, entry := range testEntries(1, 7, 3, 60) {
		value := make([]byte, logEntryHeaderBytes+len(entry.Data))
		putLogEntry(value, &entry)
		f.Add(value, entry.Index)
	}
	f.Add([]byte{}, uint64(0))
	f.Add(make([]byte, logEntryHeaderBytes), uint64(1))
	f.Fuzz(func(t *testing.T, value []byte, index uint64) {
		entry, err := decodeLogEntry(value, index)
		if err != nil {
			return
		}
		again := make([]byte, logEntryHeaderBytes+len(entry.Data))
		putLogEntry(again, &entry)
		if !bytes.Equal(value, again) {
			t.Fatalf("decoded and encoded again:\n%x\n%x", value, again)
		}
		if _, err := decodeLogEntry(value, index+1); err == nil {
			t.Fatal("the value of one index is taken for that of the next")
		}
	})
}

func FuzzRaftLogHead(f *testing.F) {
	head := logHead{sequence: 9, durable: 8, hardState: []byte("state"), hasHardState: true}
	value := make([]byte, head.bytes())
	head.put(value)
	f.Add(value)
	f.Add(append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 'h', byte(len(value))}, value...))
	f.Fuzz(func(t *testing.T, input []byte) {
		if head, err := decodeLogHead(input); err == nil {
			again := make([]byte, head.bytes())
			head.put(again)
			if got, err := decodeLogHead(again); err != nil || got.sequence != head.sequence {
				t.Fatalf("decoded and encoded again: %+v, %v", got, err)
			}
		}
		headOfBatch(input)
	})
}

func TestRaftLogValuesNoticeEveryChangedByte(t *testing.T) {
	entry := testEntries(5, 3, 1, 30)[0]
	value := make([]byte, logEntryHeaderBytes+len(entry.Data))
	putLogEntry(value, &entry)
	for i := range value {
		for bit := range 8 {
			value[i] ^= 1 << bit
			if _, err := decodeLogEntry(value, 5); err == nil {
				t.Fatalf("bit %d of byte %d changed unnoticed", bit, i)
			}
			value[i] ^= 1 << bit
		}
	}
	if _, err := decodeLogEntry(value, 6); err == nil {
		t.Error("the value of another index went unnoticed")
	}
	if _, err := decodeLogEntry(value, 5); err != nil {
		t.Error(err)
	}
}
