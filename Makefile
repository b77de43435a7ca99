build:
	go build -o bin/limitctl .
