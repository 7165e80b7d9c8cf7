// Package javaclient proves zkd with the Java client of Apache ZooKeeper, 3.9 and 3.8: every call of
// org.apache.zookeeper.ZooKeeper, synchronous and asynchronous, watches of all kinds over a broken connection,
// sessions taken over and refused, containers and TTLs to their end; and of ZooKeeperAdmin, on three servers.
//
// src holds the program. It prints a transcript without times, ids and absolute zxids, which is compared with one
// recorded from the real server (run with ZKD_COMPAT_TARGET=zookeeper and -update).
package javaclient
