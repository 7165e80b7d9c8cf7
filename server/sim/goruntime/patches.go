package goruntime

// patch is one place of a file of package runtime that reads otherwise for a run that repeats.
type patch struct {
	file     string // below src/runtime
	old, new string // old is there exactly once; it may be empty, then new is added at the end
}

// patches are all that differs.
var patches = []patch{
	{"rand.go", "	if len(startupRand) >= 16 &&\n",
		"	if true {\n		seed[0] = 1\n	} else if len(startupRand) >= 16 &&\n"},
	{"rand.go", "", `
//go:linkname zkdSeed zkd/server/sim/goruntime.reseed
func zkdSeed(seed uint64) {
	mp := acquirem()
	m0.chacha8.Init64([4]uint64{seed, 1, 2, 3})
	m0.cheaprand = rand()
	mp.p.ptr().schedtick = 0
	releasem(mp)
}
`},
	{"rand.go", "	mp := getg().m\n	c := &mp.chacha8\n", "	mp := getg().m\n	c := &m0.chacha8\n"},
	{"rand.go", "	mp := getg().m\n	// Implement wyrand", "	mp := &m0\n	// Implement wyrand"},
	{"runtime2.go", "	bubble  *synctestBubble\n", "	bubble  *synctestBubble\n	zkdGroup uint32\n"},
	{"proc.go", "		newg.bubble = callergp.bubble\n",
		"		newg.bubble = callergp.bubble\n		newg.zkdGroup = callergp.zkdGroup\n"},
	{"proc.go", "		resetspinning()\n	}\n\n	if sched.disable.user", `		resetspinning()
	}

	if n := gp.zkdGroup; n != 0 && zkdPaused[n] {
		casGToWaiting(gp, _Grunnable, waitReasonSleep)
		zkdHeld[n].pushBack(gp)
		goto top
	}

	if sched.disable.user`},
	{"proc.go", "", `
// Groups of goroutines that can be paused: none of them runs until it is resumed.
var (
	zkdPaused [64]bool
	zkdPauses [64]uint32
	zkdHeld   [64]gQueue
)

//go:linkname zkdJoin zkd/server/sim/goruntime.join
func zkdJoin(group uint32) { getg().zkdGroup = group }

//go:linkname zkdGroup zkd/server/sim/goruntime.group
func zkdGroup() (group, pauses uint32) {
	group = getg().zkdGroup
	return group, zkdPauses[group]
}

//go:linkname zkdPause zkd/server/sim/goruntime.pause
func zkdPause(group uint32) {
	zkdPaused[group] = true
	zkdPauses[group]++
}

//go:linkname zkdResume zkd/server/sim/goruntime.resume
func zkdResume(group uint32) {
	zkdPaused[group] = false
	zkdPauses[group]++
	for !zkdHeld[group].empty() {
		goready(zkdHeld[group].pop(), 0)
	}
}
`},
	{"proc.go", `const haveSysmon = GOARCH != "wasm"`, "const haveSysmon = false"},
	{"proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = true"},
	{"proc.go", `		if t == h {
			return nil, false
		}
		gp := pp.runq[h%uint32(len(pp.runq))].ptr()
`, `		if t == h {
			return nil, false
		}
		if n := t - h; n > 1 && cheaprandn(4) == 0 {
			one, other := &pp.runq[h%uint32(len(pp.runq))], &pp.runq[(h+cheaprandn(n))%uint32(len(pp.runq))]
			*one, *other = *other, *one
		}
		gp := pp.runq[h%uint32(len(pp.runq))].ptr()
`},
	// How long who waited for a lock, in the bubble's time. A wait in which the group was paused does not count.
	{"sema.go", "	s := acquireSudog()\n	root := semtable.rootFor(addr)\n",
		"	s := acquireSudog()\n	zkdWait := zkdBeginWait(gp)\n	root := semtable.rootFor(addr)\n"},
	{"sema.go", "	releaseSudog(s)\n}\n\nfunc semrelease(", `	switch reason {
	case waitReasonSyncMutexLock, waitReasonSyncRWMutexRLock, waitReasonSyncRWMutexLock:
		zkdEndWait(gp, zkdWait)
	}
	releaseSudog(s)
}

func semrelease(`},
	{"sema.go", "", `
type zkdWaiting struct {
	began  int64
	pauses uint32
}

var (
	zkdLong  int64 // a wait that is as long is kept; 0: none
	zkdCount int   // of the waits that are kept, or would be if there were room
	zkdWaits [64]struct {
		group  uint32
		began  int64
		waited int64
		depth  int
		stack  [24]uintptr
	}
)

func zkdBeginWait(gp *g) zkdWaiting {
	if gp.bubble == nil {
		return zkdWaiting{}
	}
	return zkdWaiting{gp.bubble.now, zkdPauses[gp.zkdGroup]}
}

func zkdEndWait(gp *g, w zkdWaiting) {
	if gp.bubble == nil || zkdLong == 0 || gp.bubble.now-w.began < zkdLong || zkdPauses[gp.zkdGroup] != w.pauses {
		return
	}
	if n := zkdCount; n < len(zkdWaits) {
		k := &zkdWaits[n]
		k.group, k.began, k.waited = gp.zkdGroup, w.began, gp.bubble.now-w.began
		k.depth = callers(2, k.stack[:])
	}
	zkdCount++
}

//go:linkname zkdWatchWaits zkd/server/sim/goruntime.watchWaits
func zkdWatchWaits(long int64) { zkdLong = long }

//go:linkname zkdWait zkd/server/sim/goruntime.wait
func zkdWait(i int, stack []uintptr) (group uint32, began, waited int64, depth, count int) {
	if i >= len(zkdWaits) || i >= zkdCount {
		return 0, 0, 0, 0, zkdCount
	}
	k := &zkdWaits[i]
	return k.group, k.began, k.waited, copy(stack, k.stack[:k.depth]), zkdCount
}
`},
	// Who hands its processor to a thread that a goroutine is locked to is idle from then on, not a while later: else
	// that one finds no idle thread, if it is fast, and makes another one, which takes memory.
	{"proc.go", `	mp.nextp.set(pp)
	notewakeup(&mp.park)
	stopm()
}

// Stops the current m for stopTheWorld.`, `	mp.nextp.set(pp)
	self := getg().m
	lock(&sched.lock)
	mput(self)
	unlock(&sched.lock)
	notewakeup(&mp.park)
	mPark()
	acquirep(self.nextp.ptr())
	self.nextp = 0
}

// Stops the current m for stopTheWorld.`},
	{"runtime2.go", "	waitReasonSyncCondWait:          true,\n", `	waitReasonSyncCondWait:          true,
	waitReasonSyncMutexLock:         true,
	waitReasonSyncRWMutexRLock:      true,
	waitReasonSyncRWMutexLock:       true,
`},
	{"time_nofake.go", "func nanotime() int64 {\n", `func nanotime() int64 {
	if bubble := getg().bubble; bubble != nil {
		return bubble.now
	}
`},
}
