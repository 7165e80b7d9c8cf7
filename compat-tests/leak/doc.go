// Package leak fails a package's tests when goroutines are left behind at their end. It owns how long they may take to
// end, which is longer than goleak itself waits: a slow machine is no leak. It must know nothing of what is tested.
package leak
