// Package firstweek goes through the first week with zkd as an operator does it: the archive of a release is unpacked,
// the data of each version of Apache ZooKeeper imported, an ensemble run, rolled, repaired, changed and filled, backed
// up, restored, exported, and moved back to Apache ZooKeeper.
//
// It holds what each command prints and how it ends to testdata, one file for each step, and each line from warning on
// in the log of each server to what the step calls for. It owns these lists; it starts servers by way of the packages
// target and ensemble, and knows zkd as its users do.
package firstweek
