package disk

import "hash/crc32"

// RecordBlockBytes is the size of the blocks of Pebble's files of records, its write-ahead logs and MANIFESTs (package
// record). A record is one chunk or several; none crosses a block.
const RecordBlockBytes = 32 << 10

var recordTable = crc32.MakeTable(crc32.Castagnoli)

// RecordChecksum is the checksum of a chunk, which Pebble (as LevelDB) stores first in it: CRC-32C, rotated and offset.
func RecordChecksum(b []byte) uint32 {
	crc := crc32.Checksum(b, recordTable)
	return (crc>>15 | crc<<17) + 0xa282ead8
}
