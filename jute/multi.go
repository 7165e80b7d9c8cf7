package jute

// multiEnd is the header that ends a multi in both directions.
var multiEnd = MultiHeader{Type: OpError, Done: true, Err: -1}

// AppendMultiEnd adds the header that ends a multi request or response.
func AppendMultiEnd(b []byte) []byte { return multiEnd.Append(b) }

// MultiDecoder walks the operations of a multi or multiRead request, or the results of a response. After each true
// from Next the caller decodes that operation's record from the same Decoder; then it calls Next again.
type MultiDecoder struct {
	d      *Decoder
	header MultiHeader
}

// NewMultiDecoder returns a walk over the multi that starts where d stands.
func NewMultiDecoder(d *Decoder) MultiDecoder { return MultiDecoder{d: d} }

// Next reads the next header. It returns false at the end of the multi and when the frame cannot be read; d.Err tells
// which. A header with done set ends the multi, whatever else it says
// (org.apache.zookeeper.MultiOperationRecord.deserialize).
func (m *MultiDecoder) Next() bool {
	m.header.Decode(m.d)
	return m.d.Err() == nil && !m.header.Done
}

// Header returns the header that Next has read.
func (m *MultiDecoder) Header() MultiHeader { return m.header }
