package grpc

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The paths of the methods of reflection, which have the same messages.
const (
	ReflectionV1      = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	ReflectionV1Alpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
)

// The questions of a ServerReflectionRequest, and the answers of a ServerReflectionResponse, by their fields.
const (
	askFile       = 3
	askSymbol     = 4
	askExtension  = 5
	askExtensions = 6
	askServices   = 7

	original   = 2
	files      = 4
	extensions = 5
	services   = 6
	failure    = 7
)

// Reflection returns the method of [ReflectionV1] and [ReflectionV1Alpha]. It answers with the services and all else in
// descriptors, a FileDescriptorSet in which each file comes after its imports.
func Reflection(descriptors []byte) Dialogue {
	r := &reflection{files: map[string][]byte{}, symbols: map[string][]byte{}, messages: map[string]bool{}}
	texts, closures := map[string][]byte{}, map[string][]string{}
	eachField(descriptors, func(_ protowire.Number, file []byte) {
		name, all, answer := textIn(file, 1), []string(nil), []byte(nil)
		eachField(file, func(number protowire.Number, value []byte) {
			if number == 3 { // an import
				all = append(all, closures[string(value)]...)
			}
		})
		slices.Sort(all)
		all = append(slices.Compact(all), name)
		texts[name], closures[name] = file, all
		for _, each := range slices.Backward(all) { // the file itself first
			answer = appendBytes(answer, 1, texts[each])
		}
		r.files[name] = answer
		r.add(inFile, textIn(file, 2), file, answer)
	})
	return r.answer
}

// reflection has the answers to questions for files and symbols, which are the fields of a FileDescriptorResponse: the file and
// all that it imports.
type reflection struct {
	files    map[string][]byte
	symbols  map[string][]byte
	messages map[string]bool
	services []string
}

// part is a kind of descriptor.
type part uint8

const (
	leaf part = iota
	inFile
	message
	service
)

// parts are the fields of descriptors that are descriptors with names. The name of each is its field 1.
var parts = map[part]map[protowire.Number]part{
	inFile:  {4: message, 5: leaf, 6: service},
	message: {2: leaf, 3: message, 4: leaf, 8: leaf},
	service: {2: leaf},
}

// add adds the parts of a descriptor whose name is scope.
func (r *reflection) add(of part, scope string, descriptor, answer []byte) {
	eachField(descriptor, func(number protowire.Number, value []byte) {
		kind, is := parts[of][number]
		if !is {
			return
		}
		name := scope + "." + textIn(value, 1)
		r.symbols[name] = answer
		switch kind {
		case message:
			r.messages[name] = true
		case service:
			r.services = append(r.services, name)
		}
		r.add(kind, name, value, answer)
	})
}

// answer answers a ServerReflectionRequest.
func (r *reflection) answer(request, response []byte) ([]byte, error) {
	var asked protowire.Number
	var about string
	if !eachField(request, func(number protowire.Number, value []byte) {
		if number >= askFile && number <= askServices {
			asked, about = number, string(value)
		}
	}) || asked == 0 {
		return nil, &Status{InvalidArgument, "the request is not a ServerReflectionRequest"}
	}
	response = appendBytes(response, original, request)
	what := ""
	switch asked {
	case askFile:
		if answer := r.files[about]; answer != nil {
			return appendBytes(response, files, answer), nil
		}
		what = fmt.Sprintf("file %q", about)
	case askSymbol:
		if answer := r.symbols[about]; answer != nil {
			return appendBytes(response, files, answer), nil
		}
		what = fmt.Sprintf("symbol %q", about)
	case askExtension:
		what = "extension"
	case askExtensions:
		if r.messages[about] {
			return appendBytes(response, extensions, appendBytes(nil, 1, []byte(about))), nil
		}
		what = fmt.Sprintf("message %q", about)
	case askServices:
		var answer []byte
		for _, name := range r.services {
			answer = appendBytes(answer, 1, appendBytes(nil, 1, []byte(name)))
		}
		return appendBytes(response, services, answer), nil
	}
	missing := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(NotFound))
	return appendBytes(response, failure, appendBytes(missing, 2, []byte("there is no "+what))), nil
}

// eachField calls each for the fields of a message that are bytes, and reports whether it is a message.
func eachField(message []byte, each func(number protowire.Number, value []byte)) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return false
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			each(number, value)
		}
		message = message[n:]
	}
	return true
}

// textIn is the text of a field of a message, "" without one.
func textIn(message []byte, field protowire.Number) (text string) {
	eachField(message, func(number protowire.Number, value []byte) {
		if number == field {
			text = string(value)
		}
	})
	return text
}

func appendBytes(to []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
}
