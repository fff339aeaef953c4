// Package spelling compares names that people type, to tell which one was meant.
package spelling

// Distance is how many bytes must be put in, left out or replaced to make b of a, by Levenshtein. It takes time in the product of their
// lengths: callers bound what they compare.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // from the part of a before this byte to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			n := diagonal
			if a[i] != b[j] {
				n = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], n
		}
	}
	return row[len(b)]
}
