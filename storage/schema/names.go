package schema

import "strings"

// The paths of the system's own znodes.
const (
	ZookeeperPath   = "/zookeeper"
	zookeeperPrefix = "/zookeeper/"
	QuotaPath       = "/zookeeper/quota"
	RootLimitsPath  = QuotaPath + LimitsName // nobody may have it: 3.9.5 ends when it meets it, in its own data too
)

// isSystemPath reports whether the digest leaves path out (DigestCalculator.calculateDigest).
func isSystemPath(path string) bool { return strings.HasPrefix(path, zookeeperPrefix) }

// ConfigPath is the znode whose data is the configuration of the ensemble (ZooDefs.CONFIG_NODE).
const ConfigPath = "/zookeeper/config"

// ParentOf returns the path of what holds path, as ZooKeeper takes it: all before the last '/', "" for the root's
// children and the root.
func ParentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// The names of the znodes of a quota (org.apache.zookeeper.Quotas).
const (
	LimitsName   = "/zookeeper_limits"
	StatsName    = "/zookeeper_stats"
	QuotaPrefix  = QuotaPath + "/"
	LimitsPrefix = QuotaPath // of the path of a limits or stats znode, before the path that the quota is for
)

// QuotaTarget returns the path that a znode with this name below /zookeeper/quota is about (Quotas.trimQuotaPath), if
// path is one.
func QuotaTarget(path, name string) (target string, ok bool) {
	if !strings.HasPrefix(path, QuotaPrefix) {
		return "", false
	}
	target, ok = strings.CutSuffix(path[len(QuotaPath):], name)
	if ok && target == "" {
		target = RootPath
	}
	return target, ok
}

// QuotaOf returns the path that a limits or stats znode is about, if path is one.
func QuotaOf(path string) (target string, ok bool) {
	if target, ok = QuotaTarget(path, LimitsName); !ok {
		target, ok = QuotaTarget(path, StatsName)
	}
	return target, ok
}

// Nearest returns the longest path that is there of path and those above it; the root always is. It asks for few of
// them, however deep path is: what is above a path that is there, is there. So it searches by halves of the bytes.
func Nearest(path string, there func(path string) bool) string {
	if there(path) {
		return path
	}
	found, missing := 0, len(path) // bytes of the longest that is there, and of the shortest that is not
	for {
		end := strings.LastIndexByte(path[:(found+missing)/2+1], '/')
		if end <= found { // one long name has all of this half
			end = found + 1 + strings.IndexByte(path[found+1:], '/')
		}
		if end <= found || end >= missing {
			break
		}
		if there(path[:end]) {
			found = end
		} else {
			missing = end
		}
	}
	if found == 0 {
		return RootPath
	}
	return path[:found]
}

// AppendQuotaNode adds the path of a znode of the quota of target to b.
func AppendQuotaNode(b []byte, target, name string) []byte {
	if len(target) == 1 {
		target = "" // the root's quota
	}
	return append(append(append(b, LimitsPrefix...), target...), name...)
}

// EachAbove calls f with the paths above path, the nearest first.
func EachAbove(path string, f func(path string)) {
	for len(path) > 1 {
		if path = ParentOf(path); path == "" {
			path = RootPath
		}
		f(path)
	}
}
