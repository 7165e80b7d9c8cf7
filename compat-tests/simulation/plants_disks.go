package simulation

// plantsOfOlderDisks are about disks that lack what they had: only those show them that lie, misdirect writes, or are
// what they were some time before.
func plantsOfOlderDisks() []Plant {
	return []Plant{
		{
			Name: "older-disk-stays", Bug: "a server whose disk is older stays the member that it was",
			Whose: "decision 18",
			Found: 1, Of: 108,
			Patches: []Patch{unless("older-disk-stays", "quorum/rejoin.go",
				"		a.forgot(m.GetTerm())")},
		},
		{
			Name: "older-disk-unnoticed", Bug: "a server does not look whether its leader knows of more than it has",
			Found: 1, Of: 108,
			Patches: []Patch{returns("older-disk-unnoticed", "quorum/acknowledged.go",
				"	if m.GetCommit() > a.commit &&", "false")},
		},
		{
			Name: "mark-unread", Bug: "a log does not look at the mark of what it has acknowledged",
			Whose: "decision 3",
			Found: 2, Of: 37,
			Patches: []Patch{{"storage/raftlog/recover.go", "	desc, err := disk.CheckManifest(", `
	if planted("mark-unread") {
		mark = syncMarker{}
	}
	desc, err := disk.CheckManifest(`}},
		},
	}
}
