// Package wire is one session of plain frames: what tests use that ask for an operation and look at its code, and that
// need requests which no client would send.
//
// It owns the connection and the order of its replies and events; package jute encodes and decodes. It must never know
// what a test asks for, nor which server answers. A Conn belongs to one goroutine. Every call is bounded in time, and
// events are kept in the order in which they came, so that a test that has an answer also has the events before it.
package wire
