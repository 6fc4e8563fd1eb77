module github.com/marketsim/marketsim/verify/judge/libraries/adapter

go 1.26
