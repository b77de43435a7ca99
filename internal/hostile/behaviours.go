package hostile

import (
	"net"
	"strings"
	"time"
)

// Behaviours returns all hostile behaviours.
func Behaviours() []Behaviour {
	const far = "9223372036854775807"
	return []Behaviour{
		// Lengths.
		says("text without bound", "$"+far+"\r\n"),
		says("text a little too long", "$30000000\r\n"),
		then("text that comes", "$512000000\r\n", strings.Repeat("x", 1<<16)),
		then("length without an end", "$", "0"),
		says("text of negative length", "$-2\r\n"),
		says("text of a word's length", "$ten\r\n"),
		says("text without its end", "$3\r\nabcdef\r\n+OK\r\n"),
		says("error without bound", "!"+far+"\r\n"),
		says("list without bound", "*2147483647\r\n"),
		then("list that comes", "*200000000\r\n", strings.Repeat(":1\r\n", 1000)),
		then("list of texts that comes", "*10000\r\n", "$1000000\r\n"+strings.Repeat("x", 1000000)+"\r\n"),
		says("map of too many", "%400000\r\n"),
		says("push without bound", ">1000000000\r\n"),
		says("attribute without bound", "|1000000000\r\n"),
		// Streams without an end.
		then("line without an end", "+", strings.Repeat("x", 1<<16)),
		then("number without an end", ":", strings.Repeat("1", 1<<16)),
		spoils(then("answers without an end", "", strings.Repeat("+OK\r\n", 1000))),
		then("pushes without an end", "", strings.Repeat(">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n", 1000)),
		then("large pushes without an end", "", ">2\r\n+x\r\n$1000000\r\n"+strings.Repeat("x", 1000000)+"\r\n"),
		then("messages without an end", "", strings.Repeat(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", 1000)),
		then("attributes without an end", "", strings.Repeat("|0\r\n", 1000)),
		then("zeros without an end", "", strings.Repeat("\x00", 1<<16)),
		// Just within the bounds.
		sound("text of as much as goes", "$22000000\r\n"+strings.Repeat("x", 22000000)+"\r\n"),
		sound("list of as much as goes", "*600000\r\n"+strings.Repeat("+a\r\n", 600000)),
		sound("keys of as much as goes", "*2\r\n$1\r\n7\r\n*600000\r\n"+strings.Repeat("+a\r\n", 600000)),
		// Nesting.
		then("lists in lists", "", strings.Repeat("*1\r\n", 1000)),
		then("pushes in lists", "*1\r\n", strings.Repeat(">1\r\n", 1000)),
		says("list as the key of a map", "%1\r\n*1\r\n:1\r\n:2\r\n"),
		// Wrong types.
		sound("no text", "$-1\r\n"),
		sound("no list", "*-1\r\n"),
		sound("nothing", "_\r\n"),
		sound("number", ":1\r\n"),
		sound("negative number", ":-9223372036854775808\r\n"),
		sound("number that is not one", ":many\r\n"),
		sound("fraction", ",inf\r\n"),
		sound("status", "+OK\r\n"),
		sound("empty text", "$0\r\n\r\n"),
		sound("text of zeros", "$100\r\n"+strings.Repeat("\x00", 100)+"\r\n"),
		sound("text of all ones", "$100\r\n"+strings.Repeat("\xff", 100)+"\r\n"),
		sound("empty list", "*0\r\n"),
		sound("list of nothing", "*3\r\n$-1\r\n$-1\r\n$-1\r\n"),
		sound("list of lists", "*2\r\n*0\r\n*1\r\n*0\r\n"),
		sound("empty map", "%0\r\n"),
		says("streamed text", "$?\r\n;4\r\nabcd\r\n;0\r\n"),
		// Errors.
		sound("error of nothing", "-\r\n"),
		sound("error of a long text", "-ERR "+strings.Repeat("no ", 5000)+"\r\n"),
		sound("error with escapes", "-ERR \x1b]0;x\x07\x1b[2J\r\n"),
		sound("always no such script", "-NOSCRIPT No matching script\r\n"),
		sound("moved to garbage", "-MOVED 99999 \x1b[31m:0:x\r\n"),
		sound("moved away", "-MOVED 1 127.0.0.1:1\r\n"),
		sound("ask", "-ASK 1 127.0.0.1:1\r\n"),
		sound("loading", "-LOADING for ever\r\n"),
		sound("no right", "-NOPERM no\r\n"),
		sound("foreign of a wrong number", "-FOREIGN 999 thing\r\n"),
		// Not Redis.
		says("HTTP", "HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n"),
		says("TLS", "\x15\x03\x01\x00\x02\x02\x46"),
		{Name: "HTTP before it is asked", Greets: true, Answer: says("", "HTTP/1.1 408 Timeout\r\n\r\n").Answer},
		{Name: "answers before it is asked", Greets: true, Answer: says("", strings.Repeat("+OK\r\n", 10)).Answer},
		// Time.
		{Name: "silence", Late: true, Answer: (*Client).wait},
		{Name: "end", Answer: func(*Client) bool { return false }},
		{Name: "end in the middle", Answer: func(c *Client) bool { return c.say("$100\r\nabc") && false }},
		{Name: "reset", Answer: func(c *Client) bool {
			c.Conn.(*net.TCPConn).SetLinger(0)
			return false
		}},
		{Name: "silence after half a list", Late: true, Answer: func(c *Client) bool {
			return c.say("*2\r\n+OK\r\n") &&
				c.wait()
		}},
		dribble("dribbled line", "+OOOOOOOO"),
		dribble("dribbled list", "*1000\r\n:1\r\n"),
		spoils(dribble("dribbled answers", "+OK\r\n")),
		sound("two answers for one", "+OK\r\n+OK\r\n"),
	}
}

// says is a server that gives one answer, and goes on.
func says(name, answer string) Behaviour {
	bytes := []byte(answer) // once, since some are large
	return Behaviour{Name: name, Answer: func(c *Client) bool { return c.write(bytes) }}
}

// spoils marks a behaviour that leaves unrequested answers on the connection.
func spoils(b Behaviour) Behaviour {
	b.Spoils = true
	return b
}

// sound is a server with a well-formed answer of the wrong kind.
func sound(name, answer string) Behaviour {
	b := says(name, answer)
	b.Sound = true
	return b
}

// then is a server whose answer has no end.
func then(name, begin, more string) Behaviour {
	bytes := []byte(more)
	return Behaviour{Name: name, Answer: func(c *Client) bool {
		for goOn := c.say(begin); goOn; {
			goOn = c.write(bytes)
		}
		return false
	}}
}

// dribble is a server that sends a text byte by byte, over and over.
func dribble(name, text string) Behaviour {
	return Behaviour{Name: name, Late: true, Answer: func(c *Client) bool {
		for i := 0; c.say(text[i%len(text) : i%len(text)+1]); i++ {
			select {
			case <-c.ended:
				return false
			case <-time.After(50 * time.Millisecond):
			}
		}
		return false
	}}
}

// say writes a text, and reports whether it was sent.
func (c *Client) say(text string) bool { return c.write([]byte(text)) }

func (c *Client) write(bytes []byte) bool {
	_, err := c.Write(bytes)
	return err == nil
}

// wait sends nothing until the server ends, or the client has gone: both end the read.
func (c *Client) wait() bool {
	c.Read(make([]byte, 1))
	return false
}
