package jute

import (
	"strings"
	"unicode/utf8"
)

// ValidPath reports whether path may name a znode (org.apache.zookeeper.common.PathUtils.validatePath): it starts
// with '/', has no '/' at its end unless it is the root, no empty component, no component "." or "..", and no
// forbidden character. Only writes ask; a read of such a path finds no znode. It costs one pass and allocates
// nothing.
//
// Quirk: Java looks at UTF-16 units, so that no path holds a character outside the basic plane: its surrogates are
// forbidden.
func ValidPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	start := 1 // of the component that is being read
	for i, r := range path[1:] {
		if r == '/' {
			if !validName(path[start : i+1]) {
				return false
			}
			start = i + 2
		} else if forbiddenInPath(r) {
			return false
		}
	}
	return validName(path[start:])
}

// validName reports whether a component is neither empty nor relative; its characters are checked elsewhere.
func validName(name string) bool { return name != "" && name != "." && name != ".." }

// forbiddenInPath reports whether no path may hold r: control characters, all that Java sees as surrogates, private
// use, and the last 16 of the basic plane. U+FFFD, which stands for malformed UTF-8, is one of those.
func forbiddenInPath(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r <= 0x1f || r == 0x7f
	case r <= 0x9f:
		return true
	default:
		return r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
	}
}

// HasNUL reports whether path holds U+0000. create, delete and exists answer BadArguments to it even where they do
// not ask for a valid path.
func HasNUL(path string) bool { return strings.IndexByte(path, 0) >= 0 }

// ParentPath returns the path of the znode that holds path: "/" for "/a", "/a" for "/a/b". The root and a path
// without '/' have no parent: "".
func ParentPath(path string) string {
	switch i := strings.LastIndexByte(path, '/'); {
	case i > 0:
		return path[:i]
	case i == 0 && len(path) > 1:
		return "/"
	default:
		return ""
	}
}

// ChildPath returns the path of the child of parent that is called name.
func ChildPath(parent, name string) string { return strings.TrimSuffix(parent, "/") + "/" + name }

// BaseName returns what follows the last '/' of path: the name of the znode in its parent, "" for the root.
func BaseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
