package judge

// UnderFaketime has faketime set the clock that the gate would set.
func (o Options) UnderFaketime() Options {
	o.faketime = true
	return o
}
