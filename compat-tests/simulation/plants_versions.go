package simulation

// plantsOfVersions are about servers of two versions beside each other.
func plantsOfVersions() []Plant {
	return []Plant{
		{
			Name: "flag-at-any-level", Whose: "decision 22", Found: 2, Of: 12, Before: true,
			Bug: "an entry has a flag that is new in this version, though the level is not raised",
			Patches: []Patch{{
				"storage/entry/proposal.go",
				"	b = binary.BigEndian.AppendUint16(b, uint16(p.Flags))\n",
				`	flags := p.Flags
	if planted("flag-at-any-level") {
		flags |= flagsKnown + 1
	}
	b = binary.BigEndian.AppendUint16(b, uint16(flags))
`,
			}, {
				"storage/entry/proposal.go",
				"	p.Flags = Flags(binary.BigEndian.Uint16(b[24:]))\n",
				`	p.Flags = Flags(binary.BigEndian.Uint16(b[24:]))
	if planted("flag-at-any-level") {
		p.Flags &= flagsKnown
	}
`,
			}},
		},
		{
			Name: "level-raised-early", Whose: "decision 22", Found: 2, Of: 12, Before: true,
			Bug: "a leader raises the level though a member cannot do it",
			Patches: []Patch{{
				"quorum/level.go",
				"		if its < agreed && (its > 0 || !present) {\n",
				`		if its < agreed && (its > 0 || !present) && !planted("level-raised-early") {
`,
			}},
		},
	}
}
