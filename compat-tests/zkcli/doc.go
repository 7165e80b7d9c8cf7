// Package zkcli proves zkd with zkCli.sh, the command line of Apache ZooKeeper: the class it starts, of the current
// line and of the one before, over every command it has.
//
// testdata/script.txt holds the commands; what they print is compared with a transcript recorded from the real server
// (run with ZKD_COMPAT_TARGET=zookeeper and -update). Times, zxids, session ids and ports are masked; everything else
// must be equal.
package zkcli
