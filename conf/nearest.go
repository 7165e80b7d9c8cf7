package conf

import "strings"

// nearest returns the known name that an unknown one is probably meant to be; empty when none is close. Capitals count
// little.
func (t *table) nearest(name string) string {
	best, bestDistance := "", len(name)/4+2
	for i := range t.rows {
		row := &t.rows[i]
		candidate := row.name
		if prefix, ok := row.prefix(); ok {
			base := strings.TrimSuffix(prefix, ".")
			if !strings.EqualFold(name, base) && !strings.EqualFold(strings.TrimRight(name, "0123456789._-"), base) {
				continue
			}
			return candidate
		}
		if d := editDistance(strings.ToLower(name), strings.ToLower(candidate), bestDistance); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// nearestEnv is nearest for ZKD_ variables.
func (t *table) nearestEnv(name string) string {
	best, bestDistance := "", len(name)/5+2
	for i := range t.rows {
		candidate := envName(t.rows[i].name)
		if d := editDistance(name, candidate, bestDistance); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// didYouMean is the end of a message about an unknown key.
func didYouMean(nearest string) string {
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// editDistance is the number of bytes to insert, delete or change to turn a into b, or limit when it is no less than
// that. Strings of more than 256 bytes are not compared.
func editDistance(a, b string, limit int) int {
	const comparedMax = 256
	if len(a) > comparedMax || len(b) > comparedMax || len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return min(row[len(b)], limit)
}
