package conf

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestGroupsAndWeights compares what is taken with QuorumHierarchical.containsQuorum, set by set: what is taken has the
// majorities of its voters for quorums and nothing else, and what is refused has not.
func TestGroupsAndWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // cases that repeat themselves
	taken, refused := 0, 0
	for range 3000 {
		servers := 3 + rng.IntN(3)
		groups, most := 1+rng.IntN(3), int64(1+rng.IntN(3))
		var b strings.Builder
		b.WriteString("dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n")
		members, weights := make([][]string, groups), make([]int64, servers)
		groupOf := make([]int, servers)
		for i := range servers {
			fmt.Fprintf(&b, "server.%d=h%d:1:2\n", i+1, i+1)
			groupOf[i], weights[i] = rng.IntN(groups), rng.Int64N(most+1)
			members[groupOf[i]] = append(members[groupOf[i]], fmt.Sprint(i+1))
			fmt.Fprintf(&b, "weight.%d=%d\n", i+1, weights[i])
		}
		for g, of := range members {
			if len(of) > 0 {
				fmt.Fprintf(&b, "group.%d=%s\n", g+1, strings.Join(of, ":"))
			}
		}
		c, err := Load(scriptSources(t, "-- zoo.cfg --\n"+b.String()+"-- /d/myid --\n1\n"))
		if err != nil { // a single voter is left
			continue
		}
		isTaken := len(c.Unsupported()) == 0
		if want := areMajorities(groupOf, weights); isTaken != want {
			t.Fatalf("taken is %t, want %t: %v\n%s", isTaken, want, c.Unsupported(), b.String())
		}
		if isTaken {
			taken++
		} else {
			refused++
		}
	}
	if taken < 100 || refused < 100 {
		t.Errorf("%d taken and %d refused: too few to tell", taken, refused)
	}
}

// areMajorities tells whether the quorums by groups and weights are the majorities of the servers that have a weight.
func areMajorities(groupOf []int, weights []int64) bool {
	voters := uint(0)
	for i, w := range weights {
		if w > 0 {
			voters |= 1 << i
		}
	}
	if voters == 0 { // there is no quorum
		return false
	}
	for set := range uint(1) << len(weights) {
		majority := bits.OnesCount(set&voters) > bits.OnesCount(voters)/2
		if containsQuorum(groupOf, weights, set) != majority {
			return false
		}
	}
	return true
}

// containsQuorum is QuorumHierarchical.containsQuorum; the servers of a set are its bits.
func containsQuorum(groupOf []int, weights []int64, set uint) bool {
	all, there := map[int]int64{}, map[int]int64{}
	for i, g := range groupOf {
		all[g] += weights[i]
		if set&(1<<i) != 0 {
			there[g] += weights[i]
		}
	}
	groups, whole := 0, 0
	for g, weight := range all { // any order: counted
		if weight > 0 {
			groups++
		}
		if there[g] > weight/2 {
			whole++
		}
	}
	return whole > groups/2
}
