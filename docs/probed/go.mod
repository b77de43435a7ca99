module github.com/limitctl/limitctl/docs/probed

go 1.26.0

ignore ./node
