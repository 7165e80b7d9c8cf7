package schema

import (
	"encoding/binary"
	"fmt"

	"zkd/storage/entry"
)

// FormatOf returns the format of the state store at a level: who knows no levels must not open one of a higher.
func FormatOf(level entry.Level) uint16 {
	if level < entry.LevelKnown {
		return StateFormat
	}
	return stateFormatLevels
}

// CheckStateFormat fails if this program cannot read a state store of that format. what names it.
func CheckStateFormat(format uint16, what string) error {
	if format >= StateFormat && format <= stateFormatLevels {
		return nil
	}
	return fmt.Errorf("%w: %s has format %d, this version reads %d to %d", entry.ErrLevel, what, format, StateFormat,
		stateFormatLevels)
}

// The versions of the key layout and the values that this code reads and writes.
const (
	StateFormat       = 1 // of a state of entry.LevelOldest
	stateFormatLevels = 2 // there is a feature level
)

// StateFormatName begins the value of the format key, so that a store of something else is not taken for a state.
const StateFormatName = "zkd state"

// FormatValue is what the store of a state of that level says of its format.
func FormatValue(level entry.Level) []byte {
	return binary.BigEndian.AppendUint16([]byte(StateFormatName), FormatOf(level))
}
