package jute

import "encoding/binary"

// FrameHeaderBytes is the size of the length before every frame.
const FrameHeaderBytes = 4

// DefaultMaxBufferBytes is jute.maxbuffer's default: the longest frame that a server takes from a client.
const DefaultMaxBufferBytes = 0xfffff

// BeginFrame adds room for a frame's length and returns the buffer and the mark that EndFrame needs.
func BeginFrame(b []byte) (buf []byte, mark int) { return append(b, 0, 0, 0, 0), len(b) }

// EndFrame writes the length of the frame that began at mark.
func EndFrame(b []byte, mark int) []byte {
	binary.BigEndian.PutUint32(b[mark:], uint32(len(b)-mark-FrameHeaderBytes))
	return b
}
