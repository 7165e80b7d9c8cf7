package disk

// SectorBytes is what a disk writes whole or not at all.
const SectorBytes = 512

// AnyNonZero tells whether b holds anything but zeros.
func AnyNonZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return true
		}
	}
	return false
}
