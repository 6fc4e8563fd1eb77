// Package outsider holds nothing but a test, which shows how a Purchaser from elsewhere is put through a recorded history,
// an audit and the bad days: copy it into a repository of yours.
package outsider
