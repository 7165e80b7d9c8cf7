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
	zkdHeld   [64]gQueue
)

//go:linkname zkdJoin zkd/server/sim/goruntime.join
func zkdJoin(group uint32) { getg().zkdGroup = group }

//go:linkname zkdPause zkd/server/sim/goruntime.pause
func zkdPause(group uint32) { zkdPaused[group] = true }

//go:linkname zkdResume zkd/server/sim/goruntime.resume
func zkdResume(group uint32) {
	zkdPaused[group] = false
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
