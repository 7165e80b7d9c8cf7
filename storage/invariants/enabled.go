//go:build invariants

package invariants

// Enabled says whether costly checks are compiled in: true under the build tag "invariants".
const Enabled = true
