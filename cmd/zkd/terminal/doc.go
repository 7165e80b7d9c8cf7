// Package terminal shows full screens of text on a terminal and reads keys from it.
//
// It owns the terminal between Open and Close: raw mode, the alternate screen, the cursor. A screen is drawn as one
// text, each line cut to the width, so that nothing flickers and a small window shows what fits. It must never know
// what is shown. What comes from strangers passes Clean before it is put into a line: no name or value can move the
// cursor, change colours, or answer the terminal's questions.
package terminal
