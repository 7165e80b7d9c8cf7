package jute

import "encoding/binary"

// AppendBool adds one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt adds four bytes, big-endian.
func AppendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendLong adds eight bytes, big-endian.
func AppendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendBuffer adds a length and v; nil becomes null.
func AppendBuffer(b, v []byte) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	return append(AppendInt(b, int32(len(v))), v...)
}

// AppendUstring adds a length and the bytes of v, or null if bit field of nulls is set.
func AppendUstring(b []byte, v string, nulls Nulls, field uint) []byte {
	if nulls&(1<<field) != 0 {
		return AppendInt(b, -1)
	}
	return AppendString(b, v)
}

// AppendString adds a length and the bytes of v.
func AppendString(b []byte, v string) []byte { return append(AppendInt(b, int32(len(v))), v...) }

// AppendUstrings adds a vector of strings; nil becomes null.
func AppendUstrings(b []byte, v []string) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	b = AppendInt(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}
