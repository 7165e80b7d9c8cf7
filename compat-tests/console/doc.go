// Package console uses the console of real servers as people do: in Chromium, driven by chromedp. Znodes are made and
// changed besides by go-zookeeper, so that what a page shows is compared with what a client of others sees.
//
// It owns what a page may do in a browser: whatever is written to the browser's console as an error, asked for from
// another host, or opens a dialog that no test has called for, fails the test. Screenshots are kept where the variable
// ZKD_SCREENSHOTS names a folder. It knows nothing of how the pages are made.
package console
