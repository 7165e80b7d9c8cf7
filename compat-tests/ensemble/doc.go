// Package ensemble starts several servers as one ensemble, zkd or Apache ZooKeeper, and does to them what machines and
// networks do: kills, pauses, clean stops, lost disks, full disks, disks that hang, and cut lines.
//
// All servers get the zoo.cfg that ZooKeeper takes: server.N lines, myid, initLimit, syncLimit. A Network says how they
// reach each other: Direct over loopback; Proxied over a proxy for each pair and direction that the test owns, which
// needs no rights; Isolated in network namespaces of their own, where the kernel drops what is cut, which needs root.
//
// The package owns: the processes and directories of the servers (by way of package target), the proxies, the
// namespaces. It must never know what clients do, nor import any package of the product.
//
// Invariants: every process, mount and namespace is gone when its test ends; every wait has a deadline; a cut acts on
// connections that are there and on those that come, and Heal ends all cuts.
package ensemble
