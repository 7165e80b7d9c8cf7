// Package values says what the bytes of a znode are, and shows them: text, JSON, hexadecimal, what gzip and snappy have
// packed, and objects that Java has serialized, of which the class is named and nothing is read.
//
// It owns how far that goes: bytes come from strangers. It never knows where they come from, writes no HTML, and
// executes nothing of them. Invariants: what is unpacked is cut at UnpackedMax, what is shown at ShownMax, each with a
// note; text that is shown holds no character that controls a terminal, or the direction of what stands beside it.
package values
