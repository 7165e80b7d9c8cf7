// Package page writes HTML of which only what stands in the sources of the program is markup.
//
// It owns escaping. It must never know what is shown, nor to whom.
//
// Invariants: markup is of a type that other packages cannot name, so that constants alone become it, by themselves;
// everything else is escaped for where it may stand, in the text of an element or in an attribute's double quotes.
// Nothing is looked up by name, as templates do: with these the linker keeps every exported method of the program.
package page
