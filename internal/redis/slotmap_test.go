package redisserver

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	nodes := ParseNodes("a 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-8000 [5->-b] [93-<-b]\nshort line\n" +
		"b 10.0.0.2:6379@16379,host slave,fail? a 0 0 2 connected 8001-16382 16383 nonsense\n")
	want := []Node{
		{"10.0.0.1:6379", []string{"myself", "master"}, 7, []Range{{0, 8000}}, []int{5, 93}},
		{"10.0.0.2:6379", []string{"slave", "fail?"}, 2, []Range{{8001, 16382}, {16383, 16383}}, nil},
	}
	if !reflect.DeepEqual(nodes, want) {
		t.Fatalf("got %+v, want %+v", nodes, want)
	}
	if n := nodes[1].SlotCount(); n != 8383 || !nodes[1].Is("fail?") || nodes[1].Is("fail") {
		t.Errorf("%+v has %d slots", nodes[1], n)
	}
}
